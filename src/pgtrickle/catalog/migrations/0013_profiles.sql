-- 0013 · profiles
--
-- Why:   the figures of rehearsed refreshes are kept, the last few of each stream table;
--        explain_stream_table() takes with_analyze.
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables, for a moment: the new table refers to it.
-- Undo:  DROP TABLE pgtrickle.pgt_profiles; DROP PROCEDURE
--        pgtrickle.explain_stream_table(text, text, boolean, text), pgtrickle.explain_st(text, boolean,
--        jsonb); DROP FUNCTION pgtrickle.list_profiles(text, name[]); then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_profiles (
    profile_id bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pgt_id     bigint           NOT NULL
                                REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    taken_at   timestamptz      NOT NULL,
    action     text             NOT NULL,
    reason     text             NOT NULL,
    total_ms   double precision NOT NULL,
    figures    jsonb            NOT NULL
);

ALTER TABLE pgtrickle.pgt_profiles ENABLE ROW LEVEL SECURITY;

CREATE INDEX pgt_profiles_of_stream_table ON pgtrickle.pgt_profiles (pgt_id, profile_id);

COMMENT ON TABLE pgtrickle.pgt_profiles IS
    'The figures of rehearsed refreshes: the last ones of each stream table.';

DROP PROCEDURE IF EXISTS pgtrickle.explain_stream_table(text, text, text);
