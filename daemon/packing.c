/* Publications from and to their bytes, for where a compiler exists; `packing` does the same without, and the tests
 * compare the two. What is unusual is left to it: both functions answer None for it. Fields are read and written by
 * the member descriptors of their class (`Publication.sequence`), in the order of the wire.
 *
 * pack(publications, members) -> bytes     what msgspec encodes them to
 * unpack(frame, numbers, members, others, limits) -> (number, ..., publications)
 *                                          of a Publish or Batch, which has so many numbers first, an id and counts.
 *                                          A publication has four fields, and the `others` are the values of those
 *                                          after these, or all ten, and its extension is empty. `limits` are those
 *                                          of the lengths of attributes and payload, of counts, flags, publications,
 *                                          hops and seconds.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum { ATTRIBUTES, PAYLOAD, SEQUENCE, FLAGS, SENT, FIELDS = 10, EXTENSION = FIELDS - 1, TAIL = EXTENSION - SENT };
#define NUMBERS_MOST 8
#define HEAD_MOST 40 /* bytes of a publication beside its three strings and what its publisher shares: at most 34 */
#define TAIL_MOST 64 /* of the fields after the flags, without the extension */
#define KNOWN 1024   /* attributes that come again and again are one object */
#define KNOWN_BYTES 256

static PyObject *known[KNOWN];

/* The class of the members and where its objects have them; NULL if they are not its ten members. */
static PyTypeObject *offsets_of(PyObject *members, Py_ssize_t *offset) {
    PyTypeObject *type = NULL;
    if (PyTuple_Check(members) && PyTuple_GET_SIZE(members) == FIELDS) {
        for (int k = 0; k < FIELDS; k++) {
            PyMemberDescrObject *member = (PyMemberDescrObject *)PyTuple_GET_ITEM(members, k);
            if (!Py_IS_TYPE(member, &PyMemberDescr_Type) || member->d_member->type != T_OBJECT_EX) break;
            offset[k] = member->d_member->offset;
            if (k == FIELDS - 1) type = PyDescr_TYPE(member);
        }
    }
    if (type == NULL || PyType_IS_GC(type)) {
        PyErr_SetString(PyExc_TypeError, "not the ten members of a class outside of the collector's books");
        return NULL;
    }
    return type;
}

#define FIELD(object, k) (*(PyObject **)((char *)(object) + offset[k]))

/* --- to bytes: each returns where it stopped, or NULL for what msgspec must judge --- */

static uint8_t *put_big(uint8_t *at, uint64_t value, int bytes) {
    for (int k = bytes - 1; k >= 0; k--) *at++ = (uint8_t)(value >> 8 * k);
    return at;
}

static uint8_t *put_number(uint8_t *at, PyObject *number) {
    if (number == NULL || !PyLong_CheckExact(number)) return NULL;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return NULL;
    }
    int size = value < 0x80 ? 0 : value <= 0xFF ? 1 : value <= 0xFFFF ? 2 : value <= 0xFFFFFFFF ? 4 : 8;
    if (size) *at++ = size == 1 ? 0xCC : size == 2 ? 0xCD : size == 4 ? 0xCE : 0xCF;
    return put_big(at, value, size ? size : 1);
}

static uint8_t *put_bytes(uint8_t *at, PyObject *bytes) {
    size_t size = PyBytes_GET_SIZE(bytes);
    int width = size <= 0xFF ? 1 : size <= 0xFFFF ? 2 : 4;
    *at++ = width == 1 ? 0xC4 : width == 2 ? 0xC5 : 0xC6;
    at = put_big(at, size, width);
    memcpy(at, PyBytes_AS_STRING(bytes), size);
    return at + size;
}

static uint8_t *put_tail(uint8_t *at, PyObject **tail) { /* publisher, incarnation, accepted_at, hops, plane */
    for (int k = 0; k < 5 && at != NULL; k++) {
        if (k != 2) {
            at = put_number(at, tail[k]);
        } else if (tail[k] != NULL && PyFloat_CheckExact(tail[k])) {
            double value = PyFloat_AS_DOUBLE(tail[k]);
            uint64_t bits;
            memcpy(&bits, &value, 8);
            *at++ = 0xCB;
            at = put_big(at, bits, 8);
        } else {
            at = NULL;
        }
    }
    return at;
}

/* An upper bound of the bytes; 0 for what msgspec must judge. */
static size_t most_bytes(PyObject *publications, PyTypeObject *type, Py_ssize_t *offset) {
    size_t total = 5;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(publications); i++) {
        PyObject *each = PyList_GET_ITEM(publications, i);
        if (!Py_IS_TYPE(each, type)) return 0;
        PyObject *attributes = FIELD(each, ATTRIBUTES), *payload = FIELD(each, PAYLOAD);
        PyObject *extension = FIELD(each, EXTENSION);
        if (attributes == NULL || payload == NULL || extension == NULL) return 0;
        if (!PyBytes_CheckExact(attributes) || !PyBytes_CheckExact(payload) || !PyBytes_CheckExact(extension)) return 0;
        size_t sizes[3] = {PyBytes_GET_SIZE(attributes), PyBytes_GET_SIZE(payload), PyBytes_GET_SIZE(extension)};
        for (int k = 0; k < 3; k++) {
            if (sizes[k] > 0xFFFFFFFF) return 0;
            total += sizes[k];
        }
        total += HEAD_MOST + TAIL_MOST;
    }
    return total;
}

static uint8_t *put_all(uint8_t *at, PyObject *publications, Py_ssize_t *offset) {
    uint8_t tail[TAIL_MOST];
    size_t tail_size = 0;
    PyObject *shared[5] = {NULL, NULL, NULL, NULL, NULL};
    size_t count = PyList_GET_SIZE(publications);
    *at = 0x90 | (uint8_t)count;
    if (count > 15) *at = count <= 0xFFFF ? 0xDC : 0xDD;
    at = count > 15 ? put_big(at + 1, count, count <= 0xFFFF ? 2 : 4) : at + 1;
    for (size_t i = 0; i < count; i++) {
        PyObject *each = PyList_GET_ITEM(publications, i);
        *at++ = 0x90 | FIELDS;
        at = put_bytes(at, FIELD(each, ATTRIBUTES));
        at = put_bytes(at, FIELD(each, PAYLOAD));
        if ((at = put_number(at, FIELD(each, SEQUENCE))) == NULL) return NULL;
        if ((at = put_number(at, FIELD(each, FLAGS))) == NULL) return NULL;
        int same = tail_size > 0;
        for (int k = 0; k < 5; k++) {
            same &= FIELD(each, SENT + k) == shared[k];
            shared[k] = FIELD(each, SENT + k);
        }
        if (!same) {
            uint8_t *end = put_tail(tail, shared);
            if (end == NULL) return NULL;
            tail_size = end - tail;
        }
        memcpy(at, tail, tail_size);
        at = put_bytes(at + tail_size, FIELD(each, EXTENSION));
    }
    return at;
}

static PyObject *pack(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *publications, *members;
    Py_ssize_t offset[FIELDS];
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &publications, &members)) return NULL;
    PyTypeObject *type = offsets_of(members, offset);
    if (type == NULL) return NULL;
    size_t most = most_bytes(publications, type, offset);
    if (most == 0 || most > PY_SSIZE_T_MAX / 2 || (size_t)PyList_GET_SIZE(publications) > 0xFFFFFFFF) Py_RETURN_NONE;
    PyObject *packed = PyBytes_FromStringAndSize(NULL, most);
    if (packed == NULL) return NULL;
    uint8_t *start = (uint8_t *)PyBytes_AS_STRING(packed), *end = put_all(start, publications, offset);
    if (end == NULL) {
        Py_DECREF(packed);
        Py_RETURN_NONE;
    }
    _PyBytes_Resize(&packed, end - start);
    return packed;
}

/* --- from bytes: each returns 0 for what msgspec must judge --- */

typedef struct {
    const uint8_t *at, *end;
} Reader;

static int get_big(Reader *reader, int bytes, uint64_t *value) {
    if (reader->end - reader->at < bytes) return 0;
    *value = 0;
    while (bytes--) *value = *value << 8 | *reader->at++;
    return 1;
}

static int get_number(Reader *reader, uint64_t *value) {
    uint64_t code;
    if (!get_big(reader, 1, &code)) return 0;
    *value = code;
    if (code < 0x80) return 1;
    return code >= 0xCC && code <= 0xCF && get_big(reader, 1 << (code - 0xCC), value);
}

static int get_bytes(Reader *reader, uint64_t most, const uint8_t **bytes, uint64_t *size) {
    uint64_t code;
    if (!get_big(reader, 1, &code) || code < 0xC4 || code > 0xC6 || !get_big(reader, 1 << (code - 0xC4), size)) return 0;
    if (*size > most || *size > (uint64_t)(reader->end - reader->at)) return 0;
    *bytes = reader->at;
    reader->at += *size;
    return 1;
}

static int get_count(Reader *reader, uint64_t *count) {
    uint64_t code;
    if (!get_big(reader, 1, &code)) return 0;
    *count = code & 0x0F;
    if ((code & 0xF0) == 0x90) return 1;
    return (code == 0xDC || code == 0xDD) && get_big(reader, code == 0xDC ? 2 : 4, count);
}

static PyObject *attributes_of(const uint8_t *bytes, size_t size) {
    if (size < 8 || size > KNOWN_BYTES) return PyBytes_FromStringAndSize((const char *)bytes, size);
    uint64_t last;
    memcpy(&last, bytes + size - 8, 8);
    PyObject **place = &known[((last + size) * 0x9E3779B97F4A7C15u) >> 54], *found = *place;
    if (found != NULL && (size_t)PyBytes_GET_SIZE(found) == size && memcmp(PyBytes_AS_STRING(found), bytes, size) == 0)
        return Py_NewRef(found);
    PyObject *made = PyBytes_FromStringAndSize((const char *)bytes, size);
    if (made != NULL) Py_XSETREF(*place, Py_NewRef(made));
    return made;
}

typedef struct {
    uint64_t attributes, payload, count, flags, publications, hops;
    double seconds;
} Limits;

/* The fields from the publisher to the plane, which most publications of a frame share with the one before. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    PyObject *values[TAIL];
} Tail;

static void release(Tail *tail) {
    for (int k = 0; k < TAIL; k++) Py_CLEAR(tail->values[k]);
    tail->size = 0;
}

/* 1: `tail` has the values; 0: msgspec must judge; -1: an error. */
static int get_tail(Reader *reader, const Limits *limits, Tail *tail) {
    uint64_t numbers[TAIL], code;
    double seconds;
    if (tail->size && (size_t)(reader->end - reader->at) >= tail->size && !memcmp(reader->at, tail->bytes, tail->size)) {
        reader->at += tail->size;
        return 1;
    }
    release(tail);
    const uint8_t *start = reader->at;
    if (!get_number(reader, &numbers[0]) || !get_number(reader, &numbers[1])) return 0;
    if (!get_big(reader, 1, &code) || code != 0xCB || !get_big(reader, 8, &numbers[2])) return 0;
    memcpy(&seconds, &numbers[2], 8);
    if (!(seconds >= 0.0 && seconds <= limits->seconds)) return 0;
    if (!get_number(reader, &numbers[3]) || numbers[3] > limits->hops) return 0;
    if (!get_number(reader, &numbers[4]) || numbers[4] > limits->count) return 0;
    for (int k = 0; k < TAIL; k++) {
        tail->values[k] = k == 2 ? PyFloat_FromDouble(seconds) : PyLong_FromUnsignedLongLong(numbers[k]);
        if (tail->values[k] == NULL) return -1;
    }
    tail->bytes = start;
    tail->size = reader->at - start;
    return 1;
}

/* 1: `made` is a publication; 0: msgspec must judge; -1: an error. */
static int get_publication(Reader *reader, PyTypeObject *type, Py_ssize_t *offset, PyObject *others,
                           const Limits *limits, Tail *tail, PyObject **made) {
    const uint8_t *attributes, *payload, *extension;
    uint64_t attributes_size, payload_size, extension_size, sequence, flags;
    if (reader->at == reader->end) return 0;
    uint8_t fields = *reader->at++ ^ 0x90;
    if (fields != SENT && fields != FIELDS) return 0;
    if (!get_bytes(reader, limits->attributes, &attributes, &attributes_size)) return 0;
    if (!get_bytes(reader, limits->payload, &payload, &payload_size)) return 0;
    if (!get_number(reader, &sequence) || sequence > limits->count) return 0;
    if (!get_number(reader, &flags) || flags > limits->flags) return 0;
    if (fields == FIELDS) {
        int good = get_tail(reader, limits, tail);
        if (good != 1) return good;
        if (!get_bytes(reader, 0, &extension, &extension_size)) return 0;
    }
    PyObject *publication = *made = type->tp_alloc(type, 0);
    if (publication == NULL) return -1;
    FIELD(publication, ATTRIBUTES) = attributes_of(attributes, attributes_size);
    FIELD(publication, PAYLOAD) = PyBytes_FromStringAndSize((const char *)payload, payload_size);
    FIELD(publication, SEQUENCE) = PyLong_FromUnsignedLongLong(sequence);
    FIELD(publication, FLAGS) = PyLong_FromUnsignedLongLong(flags);
    for (int k = 0; k < TAIL; k++)
        FIELD(publication, SENT + k) = Py_NewRef(fields == FIELDS ? tail->values[k] : PyTuple_GET_ITEM(others, k));
    FIELD(publication, EXTENSION) = Py_NewRef(PyTuple_GET_ITEM(others, TAIL));
    for (int k = 0; k < SENT; k++)
        if (FIELD(publication, k) == NULL) {
            Py_CLEAR(*made);
            return -1;
        }
    return 1;
}

static int get_publications(Reader *reader, PyTypeObject *type, Py_ssize_t *offset, PyObject *others,
                            const Limits *limits, PyObject *publications) {
    Tail tail = {NULL, 0, {NULL}};
    PyObject *made;
    int good = 1;
    for (Py_ssize_t i = 0; good == 1 && i < PyList_GET_SIZE(publications); i++)
        if ((good = get_publication(reader, type, offset, others, limits, &tail, &made)) == 1)
            PyList_SET_ITEM(publications, i, made);
    release(&tail);
    return good == 1 && reader->at != reader->end ? 0 : good;
}

/* The numbers and the publications as one tuple; `found` stays NULL where msgspec must judge. -1: an error. */
static int get_all(Reader *reader, int numbers, PyTypeObject *type, Py_ssize_t *offset, PyObject *others,
                   const Limits *limits, PyObject **found) {
    uint64_t values[NUMBERS_MOST], count;
    if (reader->end - reader->at < 2 || reader->at[1] != (0x90 | (numbers + 1))) return 0;
    reader->at += 2; /* the kind, and how many fields */
    for (int k = 0; k < numbers; k++)
        if (!get_number(reader, &values[k]) || (k && values[k] > limits->count)) return 0;
    if (!get_count(reader, &count) || count > limits->publications) return 0;
    if (count > (uint64_t)(reader->end - reader->at)) return 0;
    PyObject *publications = PyList_New(count);
    if (publications == NULL) return -1;
    int good = get_publications(reader, type, offset, others, limits, publications);
    PyObject *all = good == 1 ? PyTuple_New(numbers + 1) : NULL;
    if (all == NULL) {
        Py_DECREF(publications);
        return good == 1 ? -1 : good;
    }
    PyTuple_SET_ITEM(all, numbers, publications);
    for (int k = 0; k < numbers; k++) {
        PyObject *number = PyLong_FromUnsignedLongLong(values[k]);
        if (number == NULL) {
            Py_DECREF(all);
            return -1;
        }
        PyTuple_SET_ITEM(all, k, number);
    }
    *found = all;
    return 1;
}

static PyObject *unpack(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *members, *others, *found = NULL;
    Py_buffer frame;
    Py_ssize_t offset[FIELDS];
    int numbers;
    unsigned long long given[6];
    double seconds;
    if (!PyArg_ParseTuple(arguments, "y*iOO!(KKKKKKd)", &frame, &numbers, &members, &PyTuple_Type, &others, &given[0],
                          &given[1], &given[2], &given[3], &given[4], &given[5], &seconds))
        return NULL;
    Limits limits = {given[0], given[1], given[2], given[3], given[4], given[5], seconds};
    Reader reader = {frame.buf, (const uint8_t *)frame.buf + frame.len};
    PyTypeObject *type = offsets_of(members, offset);
    int good = -1;
    if (type != NULL && PyTuple_GET_SIZE(others) != FIELDS - SENT)
        PyErr_SetString(PyExc_TypeError, "not a value for each other field");
    else if (type != NULL && (numbers < 1 || numbers > NUMBERS_MOST))
        PyErr_SetString(PyExc_ValueError, "that many numbers are in no frame");
    else if (type != NULL)
        good = get_all(&reader, numbers, type, offset, others, &limits, &found);
    PyBuffer_Release(&frame);
    return good == 0 ? Py_NewRef(Py_None) : found;
}

static PyMethodDef methods[] = {
    {"pack", pack, METH_VARARGS, "publications as msgspec encodes them"},
    {"unpack", unpack, METH_VARARGS, "the publications of a frame, and the numbers before them"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_packing", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__packing(void) { return PyModule_Create(&definition); }
