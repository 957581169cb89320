-- 0023 · inbound
--
-- Why:   relays also receive: messages of brokers go into inboxes, with the place up to which they
--        were read, in one transaction (docs/inbound.md).
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_inboxes, for a moment: a new table refers to it.
-- Undo:  DROP TABLE pgtrickle.pgt_inbound_dead_letters, pgtrickle.pgt_inbound_places,
--        pgtrickle.pgt_inbound_states, pgtrickle.pgt_inbound_pipelines CASCADE; then migrate() of the
--        version before.

CREATE TABLE pgtrickle.pgt_inbound_pipelines (
    pipeline   text        PRIMARY KEY,
    inbox_id   bigint      NOT NULL
                           REFERENCES pgtrickle.pgt_inboxes (inbox_id) ON DELETE CASCADE,
    definition jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_inbound_pipelines_name_fits CHECK (pipeline ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'),
    CONSTRAINT pgt_inbound_pipelines_object CHECK (pg_catalog.jsonb_typeof(definition) = 'object')
);
CREATE INDEX pgt_inbound_pipelines_by_inbox ON pgtrickle.pgt_inbound_pipelines (inbox_id);

COMMENT ON TABLE pgtrickle.pgt_inbound_pipelines IS
    'What relays receive from where.  Only the owner reads it: options name brokers and their secrets.';

CREATE TABLE pgtrickle.pgt_inbound_states (
    pipeline    text        PRIMARY KEY,
    inbox_id    bigint      NOT NULL,
    origin      text        NOT NULL,
    paused      boolean     NOT NULL DEFAULT false,
    state       text        NOT NULL DEFAULT 'new',
    since       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    holder      text,
    held_until  timestamptz,
    messages    bigint      NOT NULL DEFAULT 0,
    duplicates  bigint      NOT NULL DEFAULT 0,
    retries     bigint      NOT NULL DEFAULT 0,
    lag         bigint,
    error_code  text,
    error       text,
    hint        text,
    wake        bigint      NOT NULL DEFAULT 0,
    received_at timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE pgtrickle.pgt_inbound_states IS 'How each inbound pipeline of a relay does.';
COMMENT ON COLUMN pgtrickle.pgt_inbound_states.held_until IS
    'Until when no other relay than its holder may receive.';

CREATE TABLE pgtrickle.pgt_inbound_places (
    pipeline text NOT NULL REFERENCES pgtrickle.pgt_inbound_states (pipeline) ON DELETE CASCADE,
    part     text NOT NULL,
    place    text NOT NULL,

    PRIMARY KEY (pipeline, part)
) WITH (fillfactor = 50);

COMMENT ON TABLE pgtrickle.pgt_inbound_places IS
    'The last message that was received of each part of an origin: a partition, or a stream.';

CREATE TABLE pgtrickle.pgt_inbound_dead_letters (
    dead_letter_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline       text        NOT NULL,
    message_id     text        NOT NULL,
    key            bytea,
    value          bytea,
    headers        jsonb       NOT NULL DEFAULT '{}',
    error_code     text        NOT NULL,
    error          text        NOT NULL,
    failed_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    replay_at      timestamptz
);
CREATE INDEX pgt_inbound_dead_letters_by_message
    ON pgtrickle.pgt_inbound_dead_letters (pipeline, message_id);

COMMENT ON TABLE pgtrickle.pgt_inbound_dead_letters IS
    'Messages that cannot be read, as they came, until they are replayed.';

ALTER TABLE pgtrickle.pgt_inbound_pipelines ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_inbound_states ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_inbound_places ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_inbound_dead_letters ENABLE ROW LEVEL SECURITY;
