-- 0039 · pre · record where lakes lie
--
-- Why:   others write to a lake's catalog too: no file is touched outside the path taken down here.
-- Reads: earlier versions pass over the columns, and leave them empty in what they make.
-- Locks: ACCESS EXCLUSIVE on pgt_ducklake_sinks and pgt_ducklake_sources, briefly; no row is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_ducklake_sinks DROP COLUMN data_path;
--        ALTER TABLE pgtrickle.pgt_ducklake_sources DROP COLUMN data_path;

ALTER TABLE pgtrickle.pgt_ducklake_sinks ADD COLUMN data_path text;
ALTER TABLE pgtrickle.pgt_ducklake_sources ADD COLUMN data_path text;

COMMENT ON COLUMN pgtrickle.pgt_ducklake_sinks.data_path IS
    'The data path of the lake when the sink was turned on, below which its files lie; NULL: it is'
    ' taken down with the next delivery.';
COMMENT ON COLUMN pgtrickle.pgt_ducklake_sources.data_path IS
    'The data path of the lake when the table was attached, below which its files lie; NULL: it is'
    ' taken down when it is followed next.';
