-- 0013 · pre · record gaps of captures, pauses, and how durable buffers are
--
-- Why:   whatever stops capture, a switch, a pause or a crash, must lead to REINITIALIZE.
-- Reads: an earlier version does not look at gaps; upgrade every process before you use the switches.
-- Locks: ACCESS EXCLUSIVE on pgt_change_tracking, briefly: no row is rewritten.
-- Undo:  DROP the functions and the two new tables; DROP the new columns.

ALTER TABLE pgtrickle.pgt_change_tracking
    ADD COLUMN durability     text,
    ADD COLUMN paused_at      timestamptz,
    ADD COLUMN delay_ms       integer NOT NULL DEFAULT 0,
    ADD COLUMN overfull       integer NOT NULL DEFAULT 0,
    ADD COLUMN alerted_at     timestamptz,
    ADD COLUMN compacted_rows bigint  NOT NULL DEFAULT 0,
    ADD COLUMN trimmed_before xid8,
    ADD CONSTRAINT pgt_change_tracking_durability_known
        CHECK (durability IN ('unlogged', 'logged', 'sync')),
    ADD CONSTRAINT pgt_change_tracking_delay_not_negative CHECK (delay_ms >= 0);

COMMENT ON COLUMN pgtrickle.pgt_change_tracking.durability IS
    'What a crash leaves of the buffer; NULL: logged, as earlier versions made it.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.paused_at IS
    'Since when nothing is captured; NULL: everything is.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.delay_ms IS
    'How long each writing statement is held up, so that refreshes catch up.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.overfull IS
    'How many times in a row the buffer was found above its limit.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.alerted_at IS
    'When an alert about the size of the buffer was sent; NULL: it is small again.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.compacted_rows IS
    'How many rows the last compaction left.';
COMMENT ON COLUMN pgtrickle.pgt_change_tracking.trimmed_before IS
    'The least end of the frontiers up to which changes were deleted: an older one needs them back.';

-- The next refresh writes the capture functions anew: they ask for pg_trickle.enabled now.
UPDATE pgtrickle.pgt_change_tracking SET layout = NULL;

-- Writers only insert here, so that they never wait for one another.
CREATE TABLE pgtrickle.pgt_capture_gaps (
    source_relid oid         NOT NULL
                             REFERENCES pgtrickle.pgt_change_tracking ON DELETE CASCADE,
    pgt_id       bigint      REFERENCES pgtrickle.pgt_stream_tables ON DELETE CASCADE,
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    reason       text        NOT NULL,
    noted_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX pgt_capture_gaps_by_source ON pgtrickle.pgt_capture_gaps (source_relid);

COMMENT ON TABLE pgtrickle.pgt_capture_gaps IS
    'Transactions with changes that no buffer holds: a frontier that does not see one starts anew.';
COMMENT ON COLUMN pgtrickle.pgt_capture_gaps.pgt_id IS
    'The one stream table for which they are missing; NULL: for all.';

-- Crash recovery empties every unlogged table, this one too: what is missing here was lost there.
CREATE UNLOGGED TABLE pgtrickle.pgt_unlogged_buffers (
    source_relid oid PRIMARY KEY REFERENCES pgtrickle.pgt_change_tracking ON DELETE CASCADE
);

COMMENT ON TABLE pgtrickle.pgt_unlogged_buffers IS
    'Unlogged buffers that no crash has emptied so far.';

-- Once a transaction.  By the table and not by a setting, which the writer could have made himself.
CREATE FUNCTION pgtrickle.note_gap(relation oid, reason text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
    SELECT relation, reason
     WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_capture_gaps AS g
                        WHERE g.source_relid = relation AND g.xid = pg_current_xact_id())
$$;

COMMENT ON FUNCTION pgtrickle.note_gap(oid, text) IS
    'Note that this transaction changes a source and is not captured.';

CREATE FUNCTION pgtrickle.list_gaps(stream_tables bigint[])
RETURNS TABLE (stream_table bigint, source text, reason text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gaps (relid, only_for, xid, reason) AS (
        SELECT t.source_relid, NULL::bigint, NULL::xid8, 'its capture is paused'
          FROM pgtrickle.pgt_change_tracking AS t WHERE t.paused_at IS NOT NULL
         UNION ALL
        SELECT t.source_relid, NULL, NULL, 'a crash emptied its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged'
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
         UNION ALL
        SELECT g.source_relid, g.pgt_id, g.xid, g.reason FROM pgtrickle.pgt_capture_gaps AS g
         UNION ALL
        -- A frontier never goes back by itself; but a user may restore what a backup holds.
        SELECT t.source_relid, s.pgt_id, NULL, 'its frontier is older than its buffer'
          FROM pgtrickle.pgt_change_tracking AS t
          JOIN pgtrickle.pgt_dependencies AS d USING (source_relid)
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
         WHERE s.pgt_id = ANY (stream_tables)
           AND pg_snapshot_xmax((s.frontier #>> '{pg,snapshot}')::pg_snapshot) < t.trimmed_before
    )
    SELECT DISTINCT s.pgt_id, d.source_schema || '.' || d.source_name, gaps.reason
      FROM gaps
      JOIN pgtrickle.pgt_dependencies AS d ON d.source_relid = gaps.relid
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE s.pgt_id = ANY (stream_tables) AND (gaps.only_for IS NULL OR gaps.only_for = s.pgt_id)
       AND (gaps.xid IS NULL OR s.frontier IS NULL OR NOT pg_visible_in_snapshot(
                gaps.xid, (s.frontier #>> '{pg,snapshot}')::pg_snapshot))
$$;

COMMENT ON FUNCTION pgtrickle.list_gaps(bigint[]) IS
    'Sources with changes after the frontier of a stream table that no buffer holds, and why.';

CREATE FUNCTION pgtrickle.note_crashes()
RETURNS SETOF oid
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH noticed AS (
        INSERT INTO pgtrickle.pgt_unlogged_buffers
        SELECT t.source_relid FROM pgtrickle.pgt_change_tracking AS t
         WHERE t.durability = 'unlogged'
           AND t.source_relid NOT IN (SELECT u.source_relid FROM pgtrickle.pgt_unlogged_buffers AS u)
            ON CONFLICT DO NOTHING
        RETURNING source_relid
    )
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
    SELECT n.source_relid, 'a crash emptied its buffer' FROM noticed AS n
    RETURNING source_relid
$$;

COMMENT ON FUNCTION pgtrickle.note_crashes() IS
    'Turn the loss of unlogged buffers by a crash into gaps; return the sources.';

-- One row a trouble; a source without any has one row with alert NULL.
CREATE FUNCTION pgtrickle.check_cdc_health()
RETURNS TABLE (source_relid oid, source_table text, cdc_mode text, durability text,
               buffer_bytes bigint, consumers bigint, alert text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH sources AS (
        SELECT t.*,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name)) AS buffer,
               to_regclass('pgtrickle_changes.' || quote_ident(t.buffer_name || '_settled')) AS settled,
               EXISTS (SELECT FROM pg_class AS c WHERE c.oid = t.source_relid) AS present
          FROM pgtrickle.pgt_change_tracking AS t
    ), triggers AS (
        SELECT s.source_relid, c.oid AS member,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND p.proname ~ ('^capture_' || s.source_relid
                                    || '_(\d+_)?(insert|update|delete|truncate)$')) AS there,
               (SELECT count(*) FROM pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid
                 WHERE g.tgrelid = c.oid AND p.pronamespace = 'pgtrickle_changes'::regnamespace
                   AND starts_with(p.proname, 'capture_' || s.source_relid || '_')
                   AND g.tgenabled NOT IN ('O', 'A')) AS disabled
          FROM sources AS s, pgtrickle.list_members(s.source_relid) AS one
          JOIN pg_class AS c ON c.oid = one AND c.relkind = 'r'
         WHERE s.cdc_mode = 'TRIGGER'
    ), alerts AS (
        SELECT s.source_relid, 'source_missing' AS alert FROM sources AS s WHERE NOT present
         UNION ALL
        SELECT s.source_relid, 'buffer_missing' FROM sources AS s
         WHERE s.buffer IS NULL OR s.settled IS NULL
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_missing' FROM triggers AS t WHERE t.there < 4
         UNION ALL
        SELECT DISTINCT t.source_relid, 'triggers_disabled' FROM triggers AS t WHERE t.disabled > 0
         UNION ALL
        SELECT s.source_relid, 'paused' FROM sources AS s WHERE s.paused_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'emptied_by_crash' FROM sources AS s
         WHERE s.durability = 'unlogged' AND NOT EXISTS (
                   SELECT FROM pgtrickle.pgt_unlogged_buffers AS u
                    WHERE u.source_relid = s.source_relid)
         UNION ALL
        SELECT s.source_relid, 'buffer_growth' FROM sources AS s WHERE s.alerted_at IS NOT NULL
         UNION ALL
        SELECT s.source_relid, 'writers_delayed' FROM sources AS s WHERE s.delay_ms > 0
         UNION ALL
        SELECT DISTINCT d.source_relid, 'gap'
          FROM pgtrickle.pgt_dependencies AS d
          JOIN pgtrickle.list_gaps(ARRAY(SELECT pgt_id FROM pgtrickle.pgt_stream_tables)) AS g
            ON g.stream_table = d.pgt_id AND g.source = d.source_schema || '.' || d.source_name
    )
    SELECT s.source_relid, s.source_schema || '.' || s.source_name, s.cdc_mode,
           coalesce(s.durability, 'logged'),
           coalesce(pg_relation_size(s.buffer), 0) + coalesce(pg_relation_size(s.settled), 0),
           (SELECT count(*) FROM pgtrickle.pgt_dependencies AS d
             WHERE d.source_relid = s.source_relid),
           a.alert
      FROM sources AS s LEFT JOIN alerts AS a USING (source_relid)
     ORDER BY 2, 7
$$;

COMMENT ON FUNCTION pgtrickle.check_cdc_health() IS
    'Every captured source, with each thing that is wrong with its capture.';

REVOKE ALL ON FUNCTION pgtrickle.note_gap(oid, text), pgtrickle.list_gaps(bigint[]),
    pgtrickle.note_crashes(), pgtrickle.check_cdc_health() FROM PUBLIC;
