-- 0019 · pre · create refresh groups
--
-- Why:   users may want stream tables that do not read one another refreshed at one moment.
-- Reads: nothing before this version reads or writes the new table, so old code keeps working.
-- Locks: CREATE TABLE only.
-- Undo:  DROP TABLE pgtrickle.pgt_refresh_groups;

CREATE TABLE pgtrickle.pgt_refresh_groups (
    group_id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name  text        NOT NULL UNIQUE,
    member_oids oid[]       NOT NULL,
    isolation   text        NOT NULL DEFAULT 'read_committed',
    created_at  timestamptz NOT NULL DEFAULT pg_catalog.now(),

    CONSTRAINT pgt_refresh_groups_have_members CHECK (pg_catalog.cardinality(member_oids) >= 2),
    CONSTRAINT pgt_refresh_groups_isolation_is_known
        CHECK (isolation IN ('read_committed', 'repeatable_read'))
);

COMMENT ON TABLE pgtrickle.pgt_refresh_groups IS
    'Stream tables that are refreshed at one moment and committed together (repeatable_read).';
