-- 0007 · snapshots in lakes
--
-- Why:   a snapshot may have its rows in a lake, as a snapshot of that, instead of in a table.
-- Reads: pgt_snapshots, for a foreign key and an index; it has one row per snapshot.
-- Locks: ACCESS EXCLUSIVE on pgt_snapshots, for a moment: only a NOT NULL is dropped.
-- Undo:  DELETE FROM pgtrickle.pgt_snapshots WHERE snapshot_relid IS NULL; DROP TABLE
--        pgtrickle.pgt_lake_snapshots; DROP INDEX pgtrickle.pgt_snapshots_without_table; ALTER TABLE
--        pgtrickle.pgt_snapshots ALTER COLUMN snapshot_relid SET NOT NULL; DROP FUNCTION
--        pgtrickle.list_snapshots(text, name[]); DROP PROCEDURE
--        pgtrickle.snapshot_stream_table(text, text, bool, text); then migrate() of the version
--        before. The tables pgtrickle_state.snapshot_* of the deleted ones stay.

ALTER TABLE pgtrickle.pgt_snapshots ALTER COLUMN snapshot_relid DROP NOT NULL;

COMMENT ON COLUMN pgtrickle.pgt_snapshots.snapshot_relid IS
    'The table that holds the rows; in another database its name counts. NULL: a lake has the rows,'
    ' and the snapshot is only a name.';

CREATE UNIQUE INDEX pgt_snapshots_without_table
    ON pgtrickle.pgt_snapshots (snapshot_schema, snapshot_table) WHERE snapshot_relid IS NULL;

CREATE TABLE pgtrickle.pgt_lake_snapshots (
    snapshot_id      bigint  PRIMARY KEY
                             REFERENCES pgtrickle.pgt_snapshots (snapshot_id) ON DELETE CASCADE,
    catalog_schema   text    NOT NULL,
    data_path        text    NOT NULL,
    sink_path        text,
    lake_schema      text    NOT NULL,
    lake_table       text    NOT NULL,
    lake_table_id    bigint  NOT NULL,
    lake_table_uuid  text    NOT NULL,
    lake_snapshot_id bigint  NOT NULL,
    columns          jsonb   NOT NULL,
    checksum         numeric NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_lake_snapshots IS
    'The snapshots of lakes that hold the rows of snapshots of stream tables: they do not expire.';
COMMENT ON COLUMN pgtrickle.pgt_lake_snapshots.data_path IS
    'The directory of the files when the snapshot was taken; sink_path, that of its sink.';
COMMENT ON COLUMN pgtrickle.pgt_lake_snapshots.columns IS
    'The columns of the stream table, in order, with their types and collations.';
COMMENT ON COLUMN pgtrickle.pgt_lake_snapshots.checksum IS
    'The sum of the hashes of the rows, by which a restore finds that they are the same.';

DROP FUNCTION IF EXISTS pgtrickle.list_snapshots(text, name[]);
DROP PROCEDURE IF EXISTS pgtrickle.snapshot_stream_table(text, text, text);
