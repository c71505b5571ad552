"""`python -m tests.spark.proof_channels_sql`: a channel's query means what Spark makes of its text.

Queries go through sqlglot, and the comparison of one statement with one query for each set compares two texts
that both did. Here expressions are run as they are written and as they are written again.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from grapevine.spark.session import SHORT_LIVED, spark_session
from pipeline.channels.rewrite import one_query

ROW = """SELECT 7L AS n, 2.71D AS f, 'abab12' AS s, date'2026-02-28' AS d,
         timestamp'2026-02-28 13:14:15' AS t"""
EXPRESSIONS = r"""
date_add(d, 1)
date_sub(d, 3)
datediff(d, date'2020-01-01')
add_months(d, 2)
d + interval 1 day
d - 1
last_day(d)
next_day(d,'MON')
trunc(d,'MM')
date_trunc('hour', t)
year(d)
dayofweek(d)
weekday(d)
date_format(t,'yyyy-MM-dd HH')
to_date('2026-01-02')
to_date('02/01/2026','dd/MM/yyyy')
to_timestamp('2026-01-02 03:04:05')
unix_timestamp(t)
from_unixtime(1700000000)
timestamp'2026-01-01 00:00:00'
cast(t as date)
cast('12' as int)
try_cast('x' as int)
cast(n as string)
n div 3
n % 3
-n % 3
mod(n,3)
pmod(-n,3)
n / 3
7/2
1L + 2
0.1BD
1e3
1.5D
n & 6
n | 6
n ^ 6
~n
shiftleft(n,2)
s like '%a_'
s rlike '^a.*\\d'
s ilike 'A%'
regexp_extract(s,'(\\w+)b',1)
regexp_replace(s,'[aeiou]','*')
'it\'s'
"double"
'a\\b'
'tab\tx'
r'raw\d'
'ä火'
concat(s,'x')
s || 'y'
concat_ws('-', s, 'z')
substring(s,2,3)
substr(s,-2)
left(s,2)
right(s,2)
instr(s,'b')
locate('b',s)
split(s,'b')
split(s,'b')[0]
upper(s)
initcap(s)
trim(s)
trim(both 'a' from s)
lpad(s,10,'*')
repeat(s,2)
reverse(s)
length(s)
md5(s)
sha2(s,256)
hex(n)
conv('ff',16,10)
array(1,2,3)[1]
element_at(array(1,2),1)
size(array(1,2))
array_contains(array(1,2),n)
sort_array(array(3,1))
transform(array(1,2), x -> x + n)
filter(array(1,2,3), x -> x > 1)
aggregate(array(1,2,3), 0, (a,x) -> a+x)
exists(array(1,2), x -> x > 1)
map('a',1)['a']
struct(n,s).n
named_struct('a',n).a
if(n>1,'a','b')
case when n>1 then 'a' else 'b' end
case n when 7 then 1 end
nvl(null,n)
coalesce(null,n)
nullif(n,7)
ifnull(null,1)
n <=> null
n is distinct from 7
n in (1,7)
n between 1 and 9
not n > 3
round(2.5)
bround(2.5)
round(f,1)
floor(f)
ceil(f)
ceil(f,1)
greatest(n,3)
least(n,3)
log(2,8)
ln(f)
power(2,3)
sqrt(f)
sign(-f)
isnan(f)
cast('NaN' as double) > 5
to_json(struct(n))
get_json_object('{"a":1}','$.a')
from_json('{"a":1}','a int').a
date'2026-01-31' + interval '1' month
months_between(d, date'2026-01-01')
extract(hour from t)
make_date(2026,1,2)
hour(t)
t + interval 90 minutes
timestampdiff(minute, t, t + interval 1 hour)
timestampadd(hour, 1, t)
unix_millis(t)
cast(f as decimal(10,2))
decimal(3.14)
typeof(n)
typeof(f)
position('b' in s)
overlay(s placing 'X' from 2)
levenshtein(s,'abc')
translate(s,'ab','xy')
format_string('%d-%s', n, s)
format_number(12345.678, 2)
bit_count(n)
bin(n)
crc32(s)
hash(n)
xxhash64(s)
width_bucket(f,0,10,5)
asin(0.5)
degrees(1)
radians(180)
atan2(1,2)
cot(1)
factorial(5)
e()
pi()
startswith(s,'a')
endswith(s,'b')
contains(s,'b')
soundex(s)
ascii(s)
chr(65)
base64(cast(s as binary))
unhex('41')
count(*)
count(distinct n)
sum(n)
avg(f)
min(s)
max(t)
collect_list(n)
collect_set(n)
first(n)
any_value(n)
stddev(f)
var_pop(f)
percentile(n,0.5)
percentile_approx(n,0.5)
approx_count_distinct(n)
count_if(n>1)
bool_or(n>1)
max_by(s,n)
sum(n) filter (where n > 1)
mode(n)
median(n)
corr(n,f)
array_agg(n)
listagg(s)
string_agg(s, ',')
skewness(f)
"""


def run() -> dict[str, Any]:
    spark = spark_session("channels-sql", "local[1]", **SHORT_LIVED)
    spark.sql(ROW).createOrReplaceTempView("T")
    differ, refused = [], []
    written = EXPRESSIONS.strip().splitlines()
    for each in written:
        query = f"SELECT {each} AS x FROM T"
        try:
            wanted = spark.sql(query).toArrow().to_pylist()
        except Exception as error:  # of any of Spark's classes
            refused.append(f"{each}: {str(error).splitlines()[0]}")
            continue
        try:
            found = spark.sql(one_query(query)).toArrow().to_pylist()
        except Exception as error:
            found = [str(error).splitlines()[0]]
        if repr(found) != repr(wanted):
            differ.append(f"{each}: {wanted} is {found} by {one_query(query)}")
    return {"expressions": len(written), "refused": refused, "differ": differ}


if __name__ == "__main__":
    result = run()
    print(msgspec.json.encode(result).decode())
    sys.exit(bool(result["differ"] or result["refused"]))
