-- The schema of the first release on PostgreSQL. Tables stand behind those that they refer to. The revision makes the
-- partitions of span and log, whose bounds go by the time.

CREATE TABLE agent (
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    version integer NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_agent PRIMARY KEY (name)
);

CREATE TABLE agent_version (
    agent varchar(200) NOT NULL,
    number integer NOT NULL,
    definition text NOT NULL,
    sha256 varchar(64) NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_agent_version PRIMARY KEY (agent, number),
    CONSTRAINT fk_agent_version_agent_agent FOREIGN KEY (agent) REFERENCES agent (name)
);

CREATE TABLE annotation (
    function varchar(200) NOT NULL,
    key varchar(64) NOT NULL,
    value text NOT NULL,
    author text NOT NULL,
    source_execution_id uuid,
    at timestamptz NOT NULL,
    CONSTRAINT pk_annotation PRIMARY KEY (function, key)
);

CREATE TABLE attempt (
    execution_id uuid NOT NULL,
    fence integer NOT NULL,
    number integer NOT NULL,
    worker_id text NOT NULL,
    isolation varchar(16),
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    outcome varchar(16),
    error text,
    duration_seconds double precision,
    waited_seconds double precision,
    sandbox text,
    queued_seconds double precision,
    CONSTRAINT pk_attempt PRIMARY KEY (execution_id, fence)
) WITH (fillfactor = 50);

CREATE TABLE audit (
    id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    author text NOT NULL,
    action varchar(64) NOT NULL,
    subject text NOT NULL,
    data text,
    origin text,
    before_sha256 varchar(64),
    after_sha256 varchar(64),
    refused boolean DEFAULT false NOT NULL,
    count integer DEFAULT 1 NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE TABLE backlog (
    execution_id uuid NOT NULL,
    function varchar(200) NOT NULL,
    trigger_id uuid,
    priority integer NOT NULL,
    run_at timestamptz NOT NULL,
    queue_at timestamptz NOT NULL,
    expires_at timestamptz,
    waiting_for_slot boolean NOT NULL,
    throttle_key varchar(32),
    throttle_place timestamptz,
    CONSTRAINT pk_backlog PRIMARY KEY (execution_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);
CREATE INDEX ix_backlog_due ON backlog (run_at) WHERE NOT waiting_for_slot;
CREATE INDEX ix_backlog_expires_at ON backlog (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_backlog_ready ON backlog (priority DESC, function, queue_at, execution_id) WHERE NOT waiting_for_slot;
CREATE INDEX ix_backlog_throttled ON backlog (trigger_id, throttle_key, throttle_place) WHERE throttle_key IS NOT NULL;
CREATE INDEX ix_backlog_trigger_id ON backlog (trigger_id) WHERE trigger_id IS NOT NULL;
CREATE INDEX ix_backlog_waiting_for_slot ON backlog (run_at) WHERE waiting_for_slot;

CREATE TABLE backtest (
    id uuid NOT NULL,
    trigger varchar(200) NOT NULL,
    draft text,
    since timestamptz NOT NULL,
    scope text,
    author text NOT NULL,
    state varchar(16) NOT NULL,
    total bigint,
    done bigint NOT NULL,
    partial text,
    result text,
    problem text,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    lease_until timestamptz,
    idempotency_key varchar(255),
    CONSTRAINT pk_backtest PRIMARY KEY (id)
);
CREATE INDEX ix_backtest_open ON backtest (id) WHERE state IN ('waiting', 'running');
CREATE UNIQUE INDEX uq_backtest_idempotency_key ON backtest (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE bad_end (
    state varchar(16) NOT NULL,
    execution_id uuid NOT NULL,
    CONSTRAINT pk_bad_end PRIMARY KEY (state, execution_id)
);

CREATE TABLE batch (
    id uuid NOT NULL,
    action varchar(16) NOT NULL,
    filters text,
    ids text,
    latest boolean NOT NULL,
    at_most integer NOT NULL,
    scope text,
    author text NOT NULL,
    reason text NOT NULL,
    state varchar(16) NOT NULL,
    total integer,
    last_id uuid,
    seen integer NOT NULL,
    done integer NOT NULL,
    failed integer NOT NULL,
    problems text NOT NULL,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    lease_until timestamptz,
    idempotency_key varchar(255),
    CONSTRAINT pk_batch PRIMARY KEY (id)
);
CREATE INDEX ix_batch_open ON batch (id) WHERE state IN ('waiting', 'running');
CREATE UNIQUE INDEX uq_batch_idempotency_key ON batch (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE breaker (
    trigger_id uuid NOT NULL,
    trips integer NOT NULL,
    since timestamptz NOT NULL,
    open_until timestamptz,
    usual_rate integer,
    usual_until timestamptz,
    CONSTRAINT pk_breaker PRIMARY KEY (trigger_id)
);

CREATE TABLE budget (
    root_id uuid NOT NULL,
    used integer NOT NULL,
    maximum integer NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_budget PRIMARY KEY (root_id)
);

CREATE TABLE buffered_match (
    trigger_id uuid NOT NULL,
    event_id uuid NOT NULL,
    part integer NOT NULL,
    parts integer DEFAULT 1 NOT NULL,
    key varchar(32) NOT NULL,
    trigger_version integer NOT NULL,
    event_time timestamptz NOT NULL,
    bytes integer NOT NULL,
    round integer DEFAULT 0 NOT NULL,
    root_id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_buffered_match PRIMARY KEY (trigger_id, event_id)
);
CREATE INDEX ix_buffered_match_buffer ON buffered_match (trigger_id, key, event_id);

CREATE TABLE canary_execution (
    execution_id uuid NOT NULL,
    canary_id uuid NOT NULL,
    unit varchar(16) NOT NULL,
    is_canary boolean NOT NULL,
    stage integer NOT NULL,
    outcome varchar(16),
    CONSTRAINT pk_canary_execution PRIMARY KEY (execution_id)
);
CREATE INDEX ix_canary_execution_open ON canary_execution (canary_id, execution_id) WHERE outcome IS NULL;
CREATE INDEX ix_canary_execution_unit ON canary_execution (canary_id, unit);

CREATE TABLE cancellation (
    trigger_id uuid NOT NULL,
    event_id uuid NOT NULL,
    rule integer NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_cancellation PRIMARY KEY (trigger_id, event_id, rule)
);

CREATE TABLE clock (
    name varchar(16) NOT NULL,
    reached_at timestamptz NOT NULL,
    ahead bigint NOT NULL,
    since timestamptz NOT NULL,
    CONSTRAINT pk_clock PRIMARY KEY (name)
);

CREATE TABLE concurrency_group (
    key varchar(32) NOT NULL,
    text text NOT NULL,
    capacity integer NOT NULL,
    CONSTRAINT pk_concurrency_group PRIMARY KEY (key)
);

CREATE TABLE counter (
    name varchar(64) NOT NULL,
    value bigint NOT NULL,
    CONSTRAINT pk_counter PRIMARY KEY (name)
);

CREATE TABLE durable_call (
    parent_id uuid NOT NULL,
    step_key varchar(64) NOT NULL,
    execution_id uuid NOT NULL,
    CONSTRAINT pk_durable_call PRIMARY KEY (parent_id, step_key)
);

CREATE TABLE embedding (
    kind varchar(16) NOT NULL,
    owner_id uuid NOT NULL,
    model varchar(200) NOT NULL,
    text_sha256 varchar(64) NOT NULL,
    call_id uuid,
    dim integer,
    vector bytea,
    CONSTRAINT pk_embedding PRIMARY KEY (kind, owner_id, model)
);
CREATE INDEX ix_embedding_call_id ON embedding (call_id) WHERE call_id IS NOT NULL;

CREATE TABLE environment (
    key varchar(64) NOT NULL,
    requirements text NOT NULL,
    lock text NOT NULL,
    python varchar(16) NOT NULL,
    platform varchar(64) NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_environment PRIMARY KEY (key)
);

CREATE TABLE event (
    id uuid NOT NULL,
    type varchar(255) NOT NULL,
    source text NOT NULL,
    subject text,
    "time" timestamptz NOT NULL,
    data text,
    root_id uuid NOT NULL,
    cause_execution_id uuid,
    depth integer NOT NULL,
    chain text NOT NULL,
    dedup_key varchar(255),
    state varchar(16) NOT NULL,
    route_attempts integer NOT NULL,
    problem text,
    routed_at timestamptz,
    extensions text,
    CONSTRAINT pk_event PRIMARY KEY (id)
) WITH (fillfactor = 50);
CREATE INDEX ix_event_cause_execution_id ON event (cause_execution_id) WHERE cause_execution_id IS NOT NULL;
CREATE INDEX ix_event_root_id ON event (root_id);
CREATE INDEX ix_event_type ON event (type, id);
CREATE UNIQUE INDEX uq_event_dedup_key ON event (dedup_key) WHERE dedup_key IS NOT NULL;

CREATE TABLE execution (
    id uuid NOT NULL,
    function varchar(200) NOT NULL,
    version integer NOT NULL,
    version_id uuid NOT NULL,
    cause varchar(16) NOT NULL,
    trigger_id uuid,
    event_id uuid,
    parent_id uuid,
    replay_of uuid,
    root_id uuid NOT NULL,
    depth integer NOT NULL,
    chain text NOT NULL,
    idempotency_key varchar(255),
    input text NOT NULL,
    state varchar(16) NOT NULL,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    released integer NOT NULL,
    max_attempts integer NOT NULL,
    retries integer NOT NULL,
    fence integer NOT NULL,
    priority integer NOT NULL,
    run_at timestamptz NOT NULL,
    expires_at timestamptz,
    lease_until timestamptz,
    worker_id text,
    cancel_requested_at timestamptz,
    versions text,
    result text,
    result_kind varchar(8),
    warnings text,
    error text,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    has_concurrency boolean DEFAULT false NOT NULL,
    throttle text,
    cancelled_by text,
    ends_with_parent boolean,
    CONSTRAINT pk_execution PRIMARY KEY (id)
) WITH (fillfactor = 40);
CREATE INDEX ix_execution_function ON execution (function, id);
CREATE INDEX ix_execution_parent_id ON execution (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ix_execution_replay_of ON execution (replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX ix_execution_root_id ON execution (root_id);
CREATE UNIQUE INDEX uq_execution_idempotency_key ON execution (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX uq_execution_trigger_id_event_id ON execution (trigger_id, event_id) WHERE trigger_id IS NOT NULL;

CREATE TABLE compensation (
    saga_id uuid NOT NULL,
    "position" integer NOT NULL,
    step_id uuid NOT NULL,
    step_fence integer DEFAULT 0 NOT NULL,
    step_seq integer DEFAULT 0 NOT NULL,
    function varchar(200) NOT NULL,
    compensate varchar(220) NOT NULL,
    state varchar(16) NOT NULL,
    execution_id uuid,
    problem text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_compensation PRIMARY KEY (saga_id, "position"),
    CONSTRAINT uq_compensation_step_id_step_fence_step_seq UNIQUE (step_id, step_fence, step_seq),
    CONSTRAINT fk_compensation_saga_id_execution FOREIGN KEY (saga_id) REFERENCES execution (id),
    CONSTRAINT fk_compensation_step_id_execution FOREIGN KEY (step_id) REFERENCES execution (id)
);
CREATE INDEX ix_compensation_failed ON compensation (saga_id) WHERE state = 'failed';
CREATE INDEX ix_compensation_open ON compensation (saga_id) WHERE state IN ('waiting', 'pending', 'running');

CREATE TABLE file_write (
    path_sha256 varchar(64) NOT NULL,
    content varchar(64) NOT NULL,
    execution_id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_file_write PRIMARY KEY (path_sha256, content, execution_id)
);
CREATE INDEX ix_file_write_time ON file_write ("time");

CREATE TABLE firing (
    trigger_id uuid NOT NULL,
    event_id uuid NOT NULL,
    trigger_version integer NOT NULL,
    decision varchar(16) NOT NULL,
    reason varchar(32),
    limit_value integer,
    actual_value integer,
    detail text,
    chain text,
    execution_id uuid,
    root_id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    joint boolean DEFAULT false NOT NULL,
    CONSTRAINT pk_firing PRIMARY KEY (trigger_id, event_id)
);
CREATE INDEX ix_firing_event_id ON firing (event_id);
CREATE INDEX ix_firing_joint ON firing (execution_id) WHERE joint;
CREATE INDEX ix_firing_root_id ON firing (root_id);
CREATE INDEX ix_firing_suppressed ON firing ("time") WHERE decision = 'suppressed';

CREATE TABLE function (
    id uuid NOT NULL,
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    active integer,
    latest integer NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    labels text DEFAULT '[]' NOT NULL,
    log_policy varchar(32) DEFAULT 'full' NOT NULL,
    run_id uuid,
    canary_id uuid,
    CONSTRAINT pk_function PRIMARY KEY (id),
    CONSTRAINT uq_function_name UNIQUE (name)
);

CREATE TABLE activation (
    id uuid NOT NULL,
    function_id uuid NOT NULL,
    function varchar(200) NOT NULL,
    version integer NOT NULL,
    previous integer,
    reason varchar(16) NOT NULL,
    proposal_id uuid,
    author text NOT NULL,
    cause_execution_id uuid,
    at timestamptz NOT NULL,
    ended_at timestamptz,
    ended_by text,
    CONSTRAINT pk_activation PRIMARY KEY (id),
    CONSTRAINT fk_activation_function_id_function FOREIGN KEY (function_id) REFERENCES function (id)
);
CREATE INDEX ix_activation_function_id ON activation (function_id, at);
CREATE UNIQUE INDEX uq_activation_open ON activation (function_id) WHERE ended_at IS NULL;

CREATE TABLE canary (
    id uuid NOT NULL,
    function_id uuid NOT NULL,
    function varchar(200) NOT NULL,
    version integer NOT NULL,
    base integer NOT NULL,
    proposal_id uuid,
    unit varchar(16) NOT NULL,
    share double precision NOT NULL,
    salt varchar(64) NOT NULL,
    state varchar(16) NOT NULL,
    reason text,
    edges text NOT NULL,
    tilts text NOT NULL,
    stages text NOT NULL,
    round integer NOT NULL,
    author text NOT NULL,
    started_at timestamptz NOT NULL,
    deadline timestamptz NOT NULL,
    decided_at timestamptz,
    decided_by text,
    CONSTRAINT pk_canary PRIMARY KEY (id),
    CONSTRAINT fk_canary_function_id_function FOREIGN KEY (function_id) REFERENCES function (id)
);
CREATE INDEX ix_canary_function ON canary (function, id);
CREATE UNIQUE INDEX uq_canary_open ON canary (function_id) WHERE state IN ('open', 'held');

CREATE TABLE function_version (
    id uuid NOT NULL,
    function_id uuid NOT NULL,
    number integer NOT NULL,
    source text NOT NULL,
    source_sha256 varchar(64) NOT NULL,
    sha256 varchar(64) NOT NULL,
    is_async boolean NOT NULL,
    parameters text NOT NULL,
    input_schema text,
    output_schema text,
    declared text NOT NULL,
    imports text NOT NULL,
    dependencies text NOT NULL,
    secrets text NOT NULL,
    permissions text NOT NULL,
    metadata text NOT NULL,
    output_patterns text NOT NULL,
    limits text NOT NULL,
    warnings text NOT NULL,
    author text NOT NULL,
    cause_execution_id uuid,
    created_at timestamptz NOT NULL,
    requirements text DEFAULT '[]' NOT NULL,
    grants text DEFAULT '{}' NOT NULL,
    reuse boolean DEFAULT false NOT NULL,
    findings text DEFAULT '[]' NOT NULL,
    environment varchar(64),
    environment_error text,
    compensate varchar(220),
    CONSTRAINT pk_function_version PRIMARY KEY (id),
    CONSTRAINT uq_function_version_function_id_number UNIQUE (function_id, number),
    CONSTRAINT fk_function_version_function_id_function FOREIGN KEY (function_id) REFERENCES function (id)
);

CREATE TABLE gate_policy (
    id uuid NOT NULL,
    name varchar(200) NOT NULL,
    number integer NOT NULL,
    applies_to text NOT NULL,
    rules text NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,
    retired_at timestamptz,
    CONSTRAINT pk_gate_policy PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_gate_policy_open ON gate_policy (name) WHERE retired_at IS NULL;

CREATE TABLE gateway (
    name varchar(200) NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    calls integer NOT NULL,
    CONSTRAINT pk_gateway PRIMARY KEY (name)
);

CREATE TABLE grant_approval (
    id uuid NOT NULL,
    function varchar(200) NOT NULL,
    sha256 varchar(64) NOT NULL,
    kind varchar(16) NOT NULL,
    value text NOT NULL,
    author text NOT NULL,
    reason text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_grant_approval PRIMARY KEY (id),
    CONSTRAINT uq_grant_approval_function_sha256_kind_value UNIQUE (function, sha256, kind, value)
);

CREATE TABLE idempotency_key (
    trigger_id uuid NOT NULL,
    key varchar(32) NOT NULL,
    text text NOT NULL,
    event_id uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT pk_idempotency_key PRIMARY KEY (trigger_id, key)
);
CREATE INDEX ix_idempotency_key_expires_at ON idempotency_key (expires_at);

CREATE TABLE in_flight (
    execution_id uuid NOT NULL,
    function varchar(200) NOT NULL,
    trigger_id uuid,
    priority integer NOT NULL,
    queue_at timestamptz NOT NULL,
    expires_at timestamptz,
    throttle_key varchar(32),
    throttle_place timestamptz,
    dispatched_at timestamptz,
    dispatch_count integer NOT NULL,
    claimed boolean NOT NULL,
    CONSTRAINT pk_in_flight PRIMARY KEY (execution_id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

CREATE TABLE llm_call (
    id uuid NOT NULL,
    root_id uuid NOT NULL,
    execution_id uuid,
    function varchar(200) NOT NULL,
    fence integer,
    agent varchar(200),
    user_name varchar(200),
    number integer NOT NULL,
    request_sha256 varchar(64) NOT NULL,
    nth integer NOT NULL,
    kind varchar(8) NOT NULL,
    state varchar(16) NOT NULL,
    model varchar(200) NOT NULL,
    asked varchar(200) NOT NULL,
    stream boolean NOT NULL,
    request text,
    request_bytes integer NOT NULL,
    max_tokens integer NOT NULL,
    response text,
    error text,
    finish_reason varchar(32),
    tries integer NOT NULL,
    model_tries integer NOT NULL,
    repair text,
    due_at timestamptz NOT NULL,
    reserved bigint NOT NULL,
    reserved_tokens bigint NOT NULL,
    quotas text NOT NULL,
    cost bigint NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    tokens_cached bigint NOT NULL,
    estimated boolean NOT NULL,
    gateway varchar(200),
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    sent_at timestamptz,
    ended_at timestamptz,
    CONSTRAINT pk_llm_call PRIMARY KEY (id)
);
CREATE INDEX ix_llm_call_execution_id ON llm_call (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX ix_llm_call_model ON llm_call (model, id);
CREATE INDEX ix_llm_call_queued ON llm_call (asked, due_at) WHERE state = 'queued';
CREATE INDEX ix_llm_call_root_id ON llm_call (root_id);
CREATE INDEX ix_llm_call_sent ON llm_call (asked) WHERE state = 'sent';
CREATE UNIQUE INDEX uq_llm_call_answer ON llm_call (execution_id, request_sha256, nth)
    WHERE execution_id IS NOT NULL AND state IN ('queued', 'sent', 'succeeded');

CREATE TABLE llm_content (
    root_id uuid NOT NULL,
    sha256 varchar(64) NOT NULL,
    content text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_llm_content PRIMARY KEY (root_id, sha256)
);

CREATE TABLE llm_partial (
    call_id uuid NOT NULL,
    text text NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_llm_partial PRIMARY KEY (call_id),
    CONSTRAINT fk_llm_partial_call_id_llm_call FOREIGN KEY (call_id) REFERENCES llm_call (id)
);

CREATE TABLE llm_try (
    call_id uuid NOT NULL,
    number integer NOT NULL,
    model varchar(200) NOT NULL,
    at timestamptz NOT NULL,
    status integer,
    problem text,
    retry_after double precision,
    seconds double precision NOT NULL,
    cost bigint NOT NULL,
    tokens bigint NOT NULL,
    CONSTRAINT pk_llm_try PRIMARY KEY (call_id, number),
    CONSTRAINT fk_llm_try_call_id_llm_call FOREIGN KEY (call_id) REFERENCES llm_call (id)
);

CREATE TABLE log (
    execution_id uuid NOT NULL,
    fence integer NOT NULL,
    seq integer NOT NULL,
    stream varchar(8) NOT NULL,
    level varchar(8) NOT NULL,
    text text NOT NULL,
    offset_seconds double precision NOT NULL,
    CONSTRAINT pk_log PRIMARY KEY (execution_id, fence, seq),
    CONSTRAINT fk_log_execution_id_execution FOREIGN KEY (execution_id) REFERENCES execution (id)
) PARTITION BY RANGE (execution_id);

CREATE TABLE login_link (
    hash varchar(64) NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT pk_login_link PRIMARY KEY (hash)
);

CREATE TABLE match_buffer (
    trigger_id uuid NOT NULL,
    key varchar(32) NOT NULL,
    text text NOT NULL,
    kind varchar(16) DEFAULT 'debounce' NOT NULL,
    opened_at timestamptz NOT NULL,
    due_at timestamptz,
    memory text NOT NULL,
    count integer DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT '0' NOT NULL,
    round integer DEFAULT 0 NOT NULL,
    changed bigint DEFAULT '0' NOT NULL,
    CONSTRAINT pk_match_buffer PRIMARY KEY (trigger_id, key)
);
CREATE INDEX ix_match_buffer_due ON match_buffer (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE memory (
    id uuid NOT NULL,
    scope varchar(16) NOT NULL,
    owner varchar(200) NOT NULL,
    kind varchar(16) NOT NULL,
    text text NOT NULL,
    text_sha256 varchar(64) NOT NULL,
    importance double precision NOT NULL,
    source_execution_id uuid,
    run_id uuid,
    author text NOT NULL,
    untrusted boolean NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    CONSTRAINT pk_memory PRIMARY KEY (id)
);
CREATE INDEX ix_memory_expires_at ON memory (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_memory_owner ON memory (scope, owner, id);
CREATE INDEX ix_memory_run_id ON memory (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ix_memory_source ON memory (source_execution_id) WHERE source_execution_id IS NOT NULL;
CREATE UNIQUE INDEX uq_memory_text ON memory (scope, owner, text_sha256);

CREATE TABLE meter (
    root_id uuid NOT NULL,
    usd_limit bigint NOT NULL,
    usd_spent bigint NOT NULL,
    usd_reserved bigint NOT NULL,
    tokens_limit bigint NOT NULL,
    tokens_spent bigint NOT NULL,
    tokens_reserved bigint NOT NULL,
    calls_limit bigint NOT NULL,
    calls bigint NOT NULL,
    tool_calls_limit bigint NOT NULL,
    tool_calls bigint NOT NULL,
    children_limit bigint NOT NULL,
    children bigint NOT NULL,
    proposals_limit bigint NOT NULL,
    proposals bigint NOT NULL,
    deadline_at timestamptz NOT NULL,
    warned_at timestamptz,
    exceeded_at timestamptz,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_meter PRIMARY KEY (root_id)
);

CREATE TABLE model (
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    adapter varchar(16) NOT NULL,
    provider_model text NOT NULL,
    api_base text,
    secret varchar(200),
    capabilities text NOT NULL,
    context integer NOT NULL,
    max_output integer NOT NULL,
    price_in bigint NOT NULL,
    price_out bigint NOT NULL,
    price_cached bigint NOT NULL,
    calls_per_minute integer,
    tokens_per_minute integer,
    slots integer NOT NULL,
    timeout double precision NOT NULL,
    fallbacks text NOT NULL,
    note text NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_model PRIMARY KEY (name)
);

CREATE TABLE model_health (
    model varchar(200) NOT NULL,
    failures integer NOT NULL,
    opened integer NOT NULL,
    open_until timestamptz,
    trial_call_id uuid,
    problem text,
    calls_allowed_at timestamptz,
    tokens_allowed_at timestamptz,
    CONSTRAINT pk_model_health PRIMARY KEY (model),
    CONSTRAINT fk_model_health_model_model FOREIGN KEY (model) REFERENCES model (name)
);

CREATE TABLE module (
    sha256 varchar(64) NOT NULL,
    source text NOT NULL,
    CONSTRAINT pk_module PRIMARY KEY (sha256)
);

CREATE TABLE open_cancel (
    execution_id uuid NOT NULL,
    whole_tree boolean NOT NULL,
    author text NOT NULL,
    requested_at timestamptz NOT NULL,
    after_id uuid,
    found boolean DEFAULT false NOT NULL,
    pass_id uuid,
    CONSTRAINT pk_open_cancel PRIMARY KEY (execution_id, whole_tree)
);

CREATE TABLE outbox (
    id uuid NOT NULL,
    event_ids bytea NOT NULL,
    count integer NOT NULL,
    first_id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    claimed_until timestamptz,
    CONSTRAINT pk_outbox PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

CREATE TABLE proposal (
    id uuid NOT NULL,
    function varchar(200) NOT NULL,
    function_id uuid NOT NULL,
    version integer NOT NULL,
    sha256 varchar(64) NOT NULL,
    base_version integer,
    state varchar(16) NOT NULL,
    reason text,
    description text NOT NULL,
    tests text NOT NULL,
    is_ephemeral boolean NOT NULL,
    rules text NOT NULL,
    policies text NOT NULL,
    rights text NOT NULL,
    author text NOT NULL,
    root_id uuid,
    run_id uuid,
    execution_id uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT pk_proposal PRIMARY KEY (id),
    CONSTRAINT fk_proposal_function_id_function FOREIGN KEY (function_id) REFERENCES function (id)
);
CREATE INDEX ix_proposal_function_id ON proposal (function_id, version);
CREATE INDEX ix_proposal_open ON proposal (expires_at) WHERE ended_at IS NULL;
CREATE INDEX ix_proposal_run_id ON proposal (run_id);

CREATE TABLE gate_check (
    proposal_id uuid NOT NULL,
    name varchar(32) NOT NULL,
    "position" integer NOT NULL,
    state varchar(16) NOT NULL,
    report text NOT NULL,
    tries integer NOT NULL,
    worker varchar(200),
    lease_until timestamptz,
    seconds double precision,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_gate_check PRIMARY KEY (proposal_id, name),
    CONSTRAINT fk_gate_check_proposal_id_proposal FOREIGN KEY (proposal_id) REFERENCES proposal (id)
);
CREATE INDEX ix_gate_check_open ON gate_check (proposal_id, "position") WHERE state IN ('pending', 'running');

CREATE TABLE quota (
    scope varchar(16) NOT NULL,
    name varchar(200) NOT NULL,
    usd bigint,
    tokens bigint,
    calls bigint,
    author text NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_quota PRIMARY KEY (scope, name)
);

CREATE TABLE quota_day (
    scope varchar(16) NOT NULL,
    name varchar(200) NOT NULL,
    day date NOT NULL,
    usd_spent bigint NOT NULL,
    usd_reserved bigint NOT NULL,
    tokens_spent bigint NOT NULL,
    tokens_reserved bigint NOT NULL,
    calls bigint NOT NULL,
    warned_at timestamptz,
    exceeded_at timestamptz,
    CONSTRAINT pk_quota_day PRIMARY KEY (scope, name, day)
);

CREATE TABLE rate_limit (
    owner_id uuid NOT NULL,
    control varchar(16) NOT NULL,
    key varchar(32) NOT NULL,
    text text NOT NULL,
    next_allowed_at timestamptz NOT NULL,
    dropped bigint NOT NULL,
    CONSTRAINT pk_rate_limit PRIMARY KEY (owner_id, control, key)
);
CREATE INDEX ix_rate_limit_next_allowed_at ON rate_limit (next_allowed_at);

CREATE TABLE resolution (
    request varchar(64) NOT NULL,
    environment varchar(64) NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_resolution PRIMARY KEY (request),
    CONSTRAINT fk_resolution_environment_environment FOREIGN KEY (environment) REFERENCES environment (key)
);

CREATE TABLE routing_queue (
    quarantined boolean DEFAULT false NOT NULL,
    event_id uuid NOT NULL,
    route_after timestamptz,
    published boolean DEFAULT false NOT NULL,
    CONSTRAINT pk_routing_queue PRIMARY KEY (quarantined, event_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

CREATE TABLE run (
    id uuid NOT NULL,
    root_id uuid NOT NULL,
    parent_run_id uuid,
    agent varchar(200),
    agent_version integer,
    function varchar(200) NOT NULL,
    definition text NOT NULL,
    goal text NOT NULL,
    user_name varchar(200),
    author text NOT NULL,
    state varchar(16) NOT NULL,
    reason varchar(32),
    detail text,
    step integer NOT NULL,
    errors integer NOT NULL,
    memo text NOT NULL,
    pending text,
    allowed text NOT NULL,
    pause_requested_at timestamptz,
    waiting_since timestamptz,
    result text,
    checked boolean,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT pk_run PRIMARY KEY (id)
);
CREATE INDEX ix_run_agent ON run (agent, id);
CREATE INDEX ix_run_open ON run (id) WHERE ended_at IS NULL;
CREATE INDEX ix_run_root_id ON run (root_id);

CREATE TABLE approval (
    id uuid NOT NULL,
    kind varchar(16) NOT NULL,
    state varchar(16) NOT NULL,
    root_id uuid NOT NULL,
    run_id uuid,
    execution_id uuid,
    proposal_id uuid,
    payload text NOT NULL,
    answer text,
    feedback text,
    decided_by text,
    requested_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    decided_at timestamptz,
    CONSTRAINT pk_approval PRIMARY KEY (id),
    CONSTRAINT fk_approval_run_id_run FOREIGN KEY (run_id) REFERENCES run (id)
);
CREATE INDEX ix_approval_pending ON approval (expires_at) WHERE state = 'pending';
CREATE INDEX ix_approval_proposal_id ON approval (proposal_id) WHERE proposal_id IS NOT NULL;
CREATE INDEX ix_approval_run_id ON approval (run_id);

CREATE TABLE run_step (
    run_id uuid NOT NULL,
    number integer NOT NULL,
    kind varchar(16) NOT NULL,
    execution_id uuid NOT NULL,
    given_hash varchar(64),
    plan_hash varchar(64),
    error_hash varchar(64),
    asked_hash varchar(64),
    paused boolean NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_run_step PRIMARY KEY (run_id, number),
    CONSTRAINT uq_run_step_execution_id UNIQUE (execution_id),
    CONSTRAINT fk_run_step_run_id_run FOREIGN KEY (run_id) REFERENCES run (id)
);

CREATE TABLE run_wait (
    run_id uuid NOT NULL,
    target_id uuid NOT NULL,
    kind varchar(16) NOT NULL,
    CONSTRAINT pk_run_wait PRIMARY KEY (run_id, target_id),
    CONSTRAINT fk_run_wait_run_id_run FOREIGN KEY (run_id) REFERENCES run (id)
);
CREATE INDEX ix_run_wait_target_id ON run_wait (target_id);

CREATE TABLE secret (
    name varchar(200) NOT NULL,
    sealed bytea NOT NULL,
    version integer NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_secret PRIMARY KEY (name)
);

CREATE TABLE slot (
    group_key varchar(32) NOT NULL,
    execution_id uuid NOT NULL,
    rule integer NOT NULL,
    capacity integer NOT NULL,
    "position" uuid NOT NULL,
    queue_at timestamptz NOT NULL,
    taken_at timestamptz,
    CONSTRAINT pk_slot PRIMARY KEY (group_key, execution_id),
    CONSTRAINT fk_slot_execution_id_execution FOREIGN KEY (execution_id) REFERENCES execution (id)
);
CREATE INDEX ix_slot_execution_id ON slot (execution_id);
CREATE INDEX ix_slot_taken ON slot (group_key) WHERE taken_at IS NOT NULL;
CREATE INDEX ix_slot_waiting ON slot (group_key, queue_at, "position") WHERE taken_at IS NULL;

CREATE TABLE source (
    id uuid NOT NULL,
    kind varchar(32) NOT NULL,
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    version integer NOT NULL,
    config text NOT NULL,
    note text,
    author text NOT NULL,
    changed bigint NOT NULL,
    holder text,
    fence integer NOT NULL,
    lease_until timestamptz,
    cursor text NOT NULL,
    problem text,
    problem_at timestamptz,
    last_event_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    refused bigint DEFAULT '0' NOT NULL,
    waiting bigint,
    looked_at timestamptz,
    paused_until timestamptz,
    refusals text,
    CONSTRAINT pk_source PRIMARY KEY (id),
    CONSTRAINT uq_source_kind_name UNIQUE (kind, name)
);
CREATE INDEX ix_source_changed ON source (changed);

CREATE TABLE delivery_receipt (
    source_id uuid NOT NULL,
    key varchar(255) NOT NULL,
    event_id uuid NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_delivery_receipt PRIMARY KEY (source_id, key),
    CONSTRAINT fk_delivery_receipt_source_id_source FOREIGN KEY (source_id) REFERENCES source (id)
);
CREATE INDEX ix_delivery_receipt_time ON delivery_receipt ("time");

CREATE TABLE file_seen (
    source_id uuid NOT NULL,
    path_sha256 varchar(64) NOT NULL,
    path bytea NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    ctime_ns bigint NOT NULL,
    inode varchar(48) NOT NULL,
    sha256 varchar(64),
    problem text,
    seen_at timestamptz NOT NULL,
    CONSTRAINT pk_file_seen PRIMARY KEY (source_id, path_sha256),
    CONSTRAINT fk_file_seen_source_id_source FOREIGN KEY (source_id) REFERENCES source (id)
);
CREATE INDEX ix_file_seen_inode ON file_seen (source_id, inode);

CREATE TABLE schedule (
    source_id uuid NOT NULL,
    version integer NOT NULL,
    timing varchar(64) NOT NULL,
    next_at timestamptz,
    fire_at timestamptz,
    last_at timestamptz,
    missed bigint NOT NULL,
    watched_from timestamptz,
    CONSTRAINT pk_schedule PRIMARY KEY (source_id),
    CONSTRAINT fk_schedule_source_id_source FOREIGN KEY (source_id) REFERENCES source (id)
);
CREATE INDEX ix_schedule_due ON schedule (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX ix_schedule_watched ON schedule (watched_from) WHERE watched_from IS NOT NULL;

CREATE TABLE schedule_tick (
    schedule_id uuid NOT NULL,
    fire_time_utc timestamptz NOT NULL,
    event_id uuid NOT NULL,
    origin varchar(16) NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_schedule_tick PRIMARY KEY (schedule_id, fire_time_utc),
    CONSTRAINT fk_schedule_tick_schedule_id_source FOREIGN KEY (schedule_id) REFERENCES source (id)
);
CREATE INDEX ix_schedule_tick_event_id ON schedule_tick (event_id);
CREATE INDEX ix_schedule_tick_time ON schedule_tick ("time");

CREATE TABLE span (
    execution_id uuid NOT NULL,
    fence integer NOT NULL,
    seq integer NOT NULL,
    parent_seq integer,
    function varchar(200) NOT NULL,
    version integer NOT NULL,
    input text,
    output text,
    error text,
    offset_seconds double precision NOT NULL,
    duration_seconds double precision,
    CONSTRAINT pk_span PRIMARY KEY (execution_id, fence, seq),
    CONSTRAINT fk_span_execution_id_execution FOREIGN KEY (execution_id) REFERENCES execution (id)
) PARTITION BY RANGE (execution_id);

CREATE TABLE state (
    function varchar(200) NOT NULL,
    key varchar(255) NOT NULL,
    value text NOT NULL,
    version integer NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_state PRIMARY KEY (function, key)
);

CREATE TABLE suppression (
    trigger_id uuid NOT NULL,
    root_id uuid NOT NULL,
    reason varchar(32) NOT NULL,
    count integer NOT NULL,
    first_event_id uuid NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    resumed integer DEFAULT 0 NOT NULL,
    CONSTRAINT pk_suppression PRIMARY KEY (trigger_id, root_id, reason)
);

CREATE TABLE switch (
    name varchar(64) NOT NULL,
    note text,
    author text NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_switch PRIMARY KEY (name)
);

CREATE TABLE tally (
    kind varchar(16) NOT NULL,
    name varchar(255) NOT NULL,
    interval_seconds integer NOT NULL,
    begins_at timestamptz NOT NULL,
    version integer NOT NULL,
    outcome varchar(32) NOT NULL,
    count bigint NOT NULL,
    queued text NOT NULL,
    run text NOT NULL,
    CONSTRAINT pk_tally PRIMARY KEY (kind, name, interval_seconds, begins_at, version, outcome)
);
CREATE INDEX ix_tally_interval_seconds_begins_at ON tally (interval_seconds, begins_at);

CREATE TABLE trigger (
    id uuid NOT NULL,
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    origin varchar(16) NOT NULL,
    version integer NOT NULL,
    note text,
    changed bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    labels text DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_trigger PRIMARY KEY (id),
    CONSTRAINT uq_trigger_name UNIQUE (name)
);
CREATE INDEX ix_trigger_changed ON trigger (changed);

CREATE TABLE trigger_failure (
    trigger_id uuid NOT NULL,
    count integer NOT NULL,
    unreported integer NOT NULL,
    version integer NOT NULL,
    event_id uuid NOT NULL,
    reason varchar(32) NOT NULL,
    error text NOT NULL,
    at timestamptz NOT NULL,
    reported_at timestamptz,
    CONSTRAINT pk_trigger_failure PRIMARY KEY (trigger_id)
);

CREATE TABLE trigger_version (
    trigger_id uuid NOT NULL,
    number integer NOT NULL,
    definition text NOT NULL,
    sha256 varchar(64) NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_trigger_version PRIMARY KEY (trigger_id, number),
    CONSTRAINT fk_trigger_version_trigger_id_trigger FOREIGN KEY (trigger_id) REFERENCES trigger (id)
);

CREATE TABLE user_account (
    id uuid NOT NULL,
    name varchar(200) NOT NULL,
    state varchar(16) NOT NULL,
    role varchar(16) NOT NULL,
    rights text NOT NULL,
    labels text,
    password varchar(200),
    password_at timestamptz,
    identity varchar(64),
    preferences text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_login_at timestamptz,
    CONSTRAINT pk_user_account PRIMARY KEY (id),
    CONSTRAINT uq_user_account_name UNIQUE (name)
);
CREATE UNIQUE INDEX uq_user_account_identity ON user_account (identity) WHERE identity IS NOT NULL;

CREATE TABLE login (
    id uuid NOT NULL,
    user_id uuid,
    hash varchar(64) NOT NULL,
    created_at timestamptz NOT NULL,
    confirmed_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    address varchar(64) NOT NULL,
    agent text NOT NULL,
    CONSTRAINT pk_login PRIMARY KEY (id),
    CONSTRAINT uq_login_hash UNIQUE (hash),
    CONSTRAINT fk_login_user_id_user_account FOREIGN KEY (user_id) REFERENCES user_account (id)
);
CREATE INDEX ix_login_user_id ON login (user_id);

CREATE TABLE token (
    id uuid NOT NULL,
    user_id uuid NOT NULL,
    name varchar(200) NOT NULL,
    hash varchar(64) NOT NULL,
    prefix varchar(16) NOT NULL,
    role varchar(16) NOT NULL,
    rights text NOT NULL,
    labels text,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_used_at timestamptz,
    CONSTRAINT pk_token PRIMARY KEY (id),
    CONSTRAINT uq_token_hash UNIQUE (hash),
    CONSTRAINT uq_token_user_id_name UNIQUE (user_id, name),
    CONSTRAINT fk_token_user_id_user_account FOREIGN KEY (user_id) REFERENCES user_account (id)
);

CREATE TABLE verification (
    code varchar(8) NOT NULL,
    count bigint NOT NULL,
    examples text NOT NULL,
    "time" timestamptz NOT NULL,
    CONSTRAINT pk_verification PRIMARY KEY (code)
);

CREATE TABLE version_mark (
    function_id uuid NOT NULL,
    version integer NOT NULL,
    mark varchar(16) NOT NULL,
    reason text NOT NULL,
    by text NOT NULL,
    canary_id uuid,
    at timestamptz NOT NULL,
    CONSTRAINT pk_version_mark PRIMARY KEY (function_id, version),
    CONSTRAINT fk_version_mark_function_id_function FOREIGN KEY (function_id) REFERENCES function (id)
);

CREATE TABLE version_module (
    version_id uuid NOT NULL,
    name varchar(200) NOT NULL,
    sha256 varchar(64) NOT NULL,
    CONSTRAINT pk_version_module PRIMARY KEY (version_id, name),
    CONSTRAINT fk_version_module_sha256_module FOREIGN KEY (sha256) REFERENCES module (sha256),
    CONSTRAINT fk_version_module_version_id_function_version FOREIGN KEY (version_id) REFERENCES function_version (id)
);

CREATE TABLE worker (
    id varchar(200) NOT NULL,
    slots integer NOT NULL,
    isolation varchar(16) NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT pk_worker PRIMARY KEY (id)
);
