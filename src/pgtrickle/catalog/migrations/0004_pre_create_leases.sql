-- 0004 · pre · create leases
--
-- Why:   one process at a time refreshes a stream table; session locks do not survive poolers.
-- Reads: nothing before this version reads or writes the new table.
-- Locks: CREATE TABLE; the foreign key takes SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_leases; DROP SEQUENCE pgtrickle.pgt_lease_tokens;

-- Tokens grow over all stream tables and all time, so an old token never fits a later lease.
CREATE SEQUENCE pgtrickle.pgt_lease_tokens;

CREATE TABLE pgtrickle.pgt_leases (
    pgt_id      bigint      PRIMARY KEY
                            REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    owner       text        NOT NULL,
    token       bigint      NOT NULL DEFAULT nextval('pgtrickle.pgt_lease_tokens'),
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,

    CONSTRAINT pgt_leases_one_per_token UNIQUE (token),
    CONSTRAINT pgt_leases_expire_after_acquisition CHECK (expires_at > acquired_at)
);

ALTER SEQUENCE pgtrickle.pgt_lease_tokens OWNED BY pgtrickle.pgt_leases.token;

COMMENT ON TABLE pgtrickle.pgt_leases IS
    'Which process may refresh a stream table, until when, and the token that fences it.';
