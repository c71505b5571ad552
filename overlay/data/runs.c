/* The inner loops of `runs`, for where a compiler exists; Python does the same without them, and the tests
 * compare the two. Fields are read and written by the member descriptors of their class (`Publication.sequence`),
 * so nothing here knows how a publication is laid out: an object of another class is a TypeError.
 *
 * stamp(objects, members, values)         set the same values on every object
 * rising(objects, member, last) -> bool   whether the member's integers rise strictly, from above `last`
 * unite(objects, member) -> int           all bits that are set in the member's integers
 * look_up(objects, member, table) -> list what the table has for the member's value of each object, or None
 * scatter(objects, routes, members) -> dict   append each object to every queue of its route's fan, and the route's
 *                                         first ids to the lists beside the clients' queues (further ones are of
 *                                         clients that have none now); the fans, in the order met.
 *                                         `members` are Route.fan, Route.ids, Fan.queues and Fan.listed
 * gather(pairs, table, members) -> tuple  of (key, ids) pairs and what the table has for the keys: the ids as a tuple,
 *                                         then the table's objects, their queues and their lists of ids as lists.
 *                                         `members` are Session.out, Outgoing.queue and Outgoing.ids
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

#define MEMBERS_MAX 8

static PyObject **slot_of(PyObject *object, PyMemberDescrObject *member) {
    if (!PyObject_TypeCheck(object, PyDescr_TYPE(member))) {
        PyErr_SetString(PyExc_TypeError, "an object of another class than the member");
        return NULL;
    }
    return (PyObject **)((char *)object + member->d_member->offset);
}

static PyObject *value_of(PyObject *object, PyMemberDescrObject *member) { /* borrowed */
    PyObject **slot = slot_of(object, member);
    if (slot == NULL) return NULL;
    if (*slot == NULL) PyErr_SetString(PyExc_AttributeError, member->d_member->name);
    return *slot;
}

static int is_member(PyObject *object, void *member) {
    if (!Py_IS_TYPE(object, &PyMemberDescr_Type) ||
        ((PyMemberDescrObject *)object)->d_member->type != T_OBJECT_EX) {
        PyErr_SetString(PyExc_TypeError, "not a member that holds an object");
        return 0;
    }
    *(PyMemberDescrObject **)member = (PyMemberDescrObject *)object;
    return 1;
}

static PyObject *stamp(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *objects, *members, *values, *value[MEMBERS_MAX];
    PyMemberDescrObject *member[MEMBERS_MAX];
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyList_Type, &objects, &PyTuple_Type, &members, &PyTuple_Type,
                          &values))
        return NULL;
    Py_ssize_t width = PyTuple_GET_SIZE(members);
    if (width > MEMBERS_MAX || width != PyTuple_GET_SIZE(values)) {
        PyErr_SetString(PyExc_ValueError, "not one value for each of at most eight members");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < width; k++) {
        if (!is_member(PyTuple_GET_ITEM(members, k), &member[k])) return NULL;
        value[k] = PyTuple_GET_ITEM(values, k);
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
        for (Py_ssize_t k = 0; k < width; k++) {
            PyObject **slot = slot_of(PyList_GET_ITEM(objects, i), member[k]);
            if (slot == NULL) return NULL;
            PyObject *before = *slot;
            if (before == value[k]) continue;
            *slot = Py_NewRef(value[k]);
            Py_XDECREF(before);
        }
    }
    Py_RETURN_NONE;
}

static PyObject *rising(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *objects;
    PyMemberDescrObject *member;
    unsigned long long last;
    if (!PyArg_ParseTuple(arguments, "O!O&K", &PyList_Type, &objects, is_member, &member, &last)) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
        PyObject *value = value_of(PyList_GET_ITEM(objects, i), member);
        if (value == NULL) return NULL;
        unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (number == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
        if (number <= last) Py_RETURN_FALSE;
        last = number;
    }
    Py_RETURN_TRUE;
}

static PyObject *unite(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *objects;
    PyMemberDescrObject *member;
    unsigned long bits = 0;
    if (!PyArg_ParseTuple(arguments, "O!O&", &PyList_Type, &objects, is_member, &member)) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
        PyObject *value = value_of(PyList_GET_ITEM(objects, i), member);
        if (value == NULL) return NULL;
        unsigned long number = PyLong_AsUnsignedLong(value);
        if (number == (unsigned long)-1 && PyErr_Occurred()) return NULL;
        bits |= number;
    }
    return PyLong_FromUnsignedLong(bits);
}

static int same_bytes(PyObject *one, PyObject *other) {
    return PyBytes_CheckExact(one) && PyBytes_CheckExact(other) && PyBytes_GET_SIZE(one) == PyBytes_GET_SIZE(other) &&
           memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), PyBytes_GET_SIZE(one)) == 0;
}

static PyObject *look_up(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *objects, *table;
    PyMemberDescrObject *member;
    if (!PyArg_ParseTuple(arguments, "O!O&O!", &PyList_Type, &objects, is_member, &member, &PyDict_Type, &table))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(objects);
    PyObject *found = PyList_New(count);
    if (found == NULL) return NULL;
    PyObject *last = NULL; /* the key before; its bytes are compared sooner than hashed */
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = value_of(PyList_GET_ITEM(objects, i), member), *value = NULL;
        if (key != NULL && last != NULL && same_bytes(key, last))
            value = PyList_GET_ITEM(found, i - 1);
        else if (key != NULL)
            value = PyDict_GetItemWithError(table, key);
        if (value == NULL && PyErr_Occurred()) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SET_ITEM(found, i, Py_NewRef(value == NULL ? Py_None : value));
        last = key;
    }
    return found;
}

static int append(PyObject *queue, PyObject *object) {
    if (PyList_CheckExact(queue)) return PyList_Append(queue, object);
    PyObject *done = PyObject_CallMethod(queue, "append", "O", object);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Appends objects[start:end] to one queue: at once, where the queue is not a list and would be called for each. */
static int take(PyObject *queue, PyObject *objects, Py_ssize_t start, Py_ssize_t end) {
    if (PyList_CheckExact(queue)) {
        for (Py_ssize_t i = start; i < end; i++)
            if (PyList_Append(queue, PyList_GET_ITEM(objects, i)) < 0) return -1;
        return 0;
    }
    PyObject *part = PyList_GetSlice(objects, start, end);
    PyObject *taken = part == NULL ? NULL : PyNumber_InPlaceAdd(queue, part);
    Py_XDECREF(part);
    Py_XDECREF(taken);
    return taken == NULL ? -1 : 0;
}

/* objects[start:end], whose routes all end in this fan. */
static int take_stretch(PyObject *objects, PyObject *routes, Py_ssize_t start, Py_ssize_t end, PyObject *fan,
                        PyMemberDescrObject **members) {
    PyObject *queues = value_of(fan, members[2]), *listed = queues == NULL ? NULL : value_of(fan, members[3]), *ids;
    if (listed == NULL) return -1;
    if (!PyList_Check(queues) || !PyList_Check(listed)) {
        PyErr_SetString(PyExc_TypeError, "not a fan");
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(queues); k++) {
        PyObject *queue = Py_NewRef(PyList_GET_ITEM(queues, k));
        int taken = PyList_GET_SIZE(objects) < end ? -1 : take(queue, objects, start, end);
        Py_DECREF(queue);
        if (taken < 0) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a run that shrinks");
            return -1;
        }
    }
    for (Py_ssize_t i = start; i < end && i < PyList_GET_SIZE(routes); i++) {
        if ((ids = value_of(PyList_GET_ITEM(routes, i), members[1])) == NULL) return -1;
        if (!PyTuple_Check(ids) || PyList_GET_SIZE(listed) > PyTuple_GET_SIZE(ids)) {
            PyErr_SetString(PyExc_TypeError, "not a route of this fan");
            return -1;
        }
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(listed); k++)
            if (append(PyList_GET_ITEM(listed, k), PyTuple_GET_ITEM(ids, k)) < 0) return -1;
    }
    return 0;
}

static PyObject *scatter(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *objects, *routes, *last = NULL;
    PyMemberDescrObject *members[4];
    if (!PyArg_ParseTuple(arguments, "O!O!(O&O&O&O&)", &PyList_Type, &objects, &PyList_Type, &routes, is_member,
                          &members[0], is_member, &members[1], is_member, &members[2], is_member, &members[3]))
        return NULL;
    PyObject *fans = PyDict_New();
    Py_ssize_t start = 0, count = PyList_GET_SIZE(objects);
    if (PyList_GET_SIZE(routes) < count) count = PyList_GET_SIZE(routes);
    for (Py_ssize_t i = 0; fans != NULL && i <= count; i++) {
        PyObject *fan = NULL;
        if (i < count && i < PyList_GET_SIZE(routes)) {
            if ((fan = value_of(PyList_GET_ITEM(routes, i), members[0])) == NULL) {
                Py_CLEAR(fans);
                break;
            }
        }
        if (fan == last) continue;
        if (last != NULL && take_stretch(objects, routes, start, i, last, members) < 0)
            Py_CLEAR(fans);
        else if (fan != NULL && PyDict_SetItem(fans, fan, Py_None) < 0) /* keeps it alive, too */
            Py_CLEAR(fans);
        last = fan;
        start = i;
    }
    return fans;
}

/* Fills place k of the rows; they own what they hold, also when they are not filled to the end. */
static int gather_one(PyObject *pair, PyObject *table, PyMemberDescrObject **member, Py_ssize_t k, PyObject **rows) {
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "not a pair");
        return -1;
    }
    PyObject *object = PyDict_GetItemWithError(table, PyTuple_GET_ITEM(pair, 0)), *out, *queue, *listed;
    if (object == NULL) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, PyTuple_GET_ITEM(pair, 0));
        return -1;
    }
    if ((out = value_of(object, member[0])) == NULL || (queue = value_of(out, member[1])) == NULL ||
        (listed = value_of(out, member[2])) == NULL)
        return -1;
    PyTuple_SET_ITEM(rows[0], k, Py_NewRef(PyTuple_GET_ITEM(pair, 1)));
    PyList_SET_ITEM(rows[1], k, Py_NewRef(object));
    PyList_SET_ITEM(rows[2], k, Py_NewRef(queue));
    PyList_SET_ITEM(rows[3], k, Py_NewRef(listed));
    return 0;
}

static PyObject *gather(PyObject *Py_UNUSED(self), PyObject *arguments) {
    PyObject *pairs, *table, *found = NULL;
    PyMemberDescrObject *member[3];
    if (!PyArg_ParseTuple(arguments, "O!O!(O&O&O&)", &PyList_Type, &pairs, &PyDict_Type, &table, is_member, &member[0],
                          is_member, &member[1], is_member, &member[2]))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(pairs), k = 0;
    PyObject *rows[4] = {PyTuple_New(count), PyList_New(count), PyList_New(count), PyList_New(count)};
    if (rows[0] && rows[1] && rows[2] && rows[3]) {
        while (k < count && gather_one(PyList_GET_ITEM(pairs, k), table, member, k, rows) == 0) k++;
        if (k == count) found = PyTuple_Pack(4, rows[0], rows[1], rows[2], rows[3]);
    }
    for (k = 0; k < 4; k++) Py_XDECREF(rows[k]);
    return found;
}

static PyMethodDef methods[] = {
    {"stamp", stamp, METH_VARARGS, "set the same values on every object"},
    {"rising", rising, METH_VARARGS, "whether a member rises strictly"},
    {"unite", unite, METH_VARARGS, "all bits of a member"},
    {"look_up", look_up, METH_VARARGS, "a table's values by a member"},
    {"scatter", scatter, METH_VARARGS, "append each object to the queues of its route"},
    {"gather", gather, METH_VARARGS, "the streams to the clients of a match"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_runs", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__runs(void) { return PyModule_Create(&definition); }
