-- The join columns, so that PostgreSQL answers reads bounded by keys from an index, and the balance
-- that Q22 compares with an average: what `pgtrickle doctor` asks for.

CREATE INDEX ON nation (n_regionkey);
CREATE INDEX ON supplier (s_nationkey);
CREATE INDEX ON customer (c_nationkey);
CREATE INDEX ON customer (c_acctbal);
CREATE INDEX ON partsupp (ps_suppkey);
CREATE INDEX ON orders (o_custkey);
CREATE INDEX ON lineitem (l_partkey, l_suppkey);
CREATE INDEX ON lineitem (l_suppkey);
ANALYZE;
