-- The schema of the first release on SQLite. Tables stand behind those that they refer to.

CREATE TABLE agent (
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    version INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_agent PRIMARY KEY (name)
);

CREATE TABLE agent_version (
    agent VARCHAR(200) NOT NULL,
    number INTEGER NOT NULL,
    definition TEXT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    author TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_agent_version PRIMARY KEY (agent, number),
    CONSTRAINT fk_agent_version_agent_agent FOREIGN KEY(agent) REFERENCES agent (name)
);

CREATE TABLE annotation (
    function VARCHAR(200) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    value TEXT NOT NULL,
    author TEXT NOT NULL,
    source_execution_id CHAR(32),
    at DATETIME NOT NULL,
    CONSTRAINT pk_annotation PRIMARY KEY (function, "key")
);

CREATE TABLE attempt (
    execution_id CHAR(32) NOT NULL,
    fence INTEGER NOT NULL,
    number INTEGER NOT NULL,
    worker_id TEXT NOT NULL,
    isolation VARCHAR(16),
    started_at DATETIME NOT NULL,
    ended_at DATETIME,
    outcome VARCHAR(16),
    error TEXT,
    duration_seconds FLOAT,
    waited_seconds FLOAT,
    sandbox TEXT,
    queued_seconds FLOAT,
    CONSTRAINT pk_attempt PRIMARY KEY (execution_id, fence)
);

CREATE TABLE audit (
    id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    author TEXT NOT NULL,
    action VARCHAR(64) NOT NULL,
    subject TEXT NOT NULL,
    data TEXT,
    origin TEXT,
    before_sha256 VARCHAR(64),
    after_sha256 VARCHAR(64),
    refused BOOLEAN DEFAULT 0 NOT NULL,
    count INTEGER DEFAULT 1 NOT NULL,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE TABLE backlog (
    execution_id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    trigger_id CHAR(32),
    priority INTEGER NOT NULL,
    run_at DATETIME NOT NULL,
    queue_at DATETIME NOT NULL,
    expires_at DATETIME,
    waiting_for_slot BOOLEAN NOT NULL,
    throttle_key VARCHAR(32),
    throttle_place DATETIME,
    CONSTRAINT pk_backlog PRIMARY KEY (execution_id)
);
CREATE INDEX ix_backlog_due ON backlog (run_at) WHERE NOT waiting_for_slot;
CREATE INDEX ix_backlog_expires_at ON backlog (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_backlog_ready ON backlog (priority DESC, function, queue_at, execution_id) WHERE NOT waiting_for_slot;
CREATE INDEX ix_backlog_throttled ON backlog (trigger_id, throttle_key, throttle_place) WHERE throttle_key IS NOT NULL;
CREATE INDEX ix_backlog_trigger_id ON backlog (trigger_id) WHERE trigger_id IS NOT NULL;
CREATE INDEX ix_backlog_waiting_for_slot ON backlog (run_at) WHERE waiting_for_slot;

CREATE TABLE backtest (
    id CHAR(32) NOT NULL,
    "trigger" VARCHAR(200) NOT NULL,
    draft TEXT,
    since DATETIME NOT NULL,
    scope TEXT,
    author TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    total BIGINT,
    done BIGINT NOT NULL,
    partial TEXT,
    result TEXT,
    problem TEXT,
    created_at DATETIME NOT NULL,
    finished_at DATETIME,
    lease_until DATETIME,
    idempotency_key VARCHAR(255),
    CONSTRAINT pk_backtest PRIMARY KEY (id)
);
CREATE INDEX ix_backtest_open ON backtest (id) WHERE state IN ('waiting', 'running');
CREATE UNIQUE INDEX uq_backtest_idempotency_key ON backtest (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE bad_end (
    state VARCHAR(16) NOT NULL,
    execution_id CHAR(32) NOT NULL,
    CONSTRAINT pk_bad_end PRIMARY KEY (state, execution_id)
);

CREATE TABLE batch (
    id CHAR(32) NOT NULL,
    action VARCHAR(16) NOT NULL,
    filters TEXT,
    ids TEXT,
    latest BOOLEAN NOT NULL,
    at_most INTEGER NOT NULL,
    scope TEXT,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    total INTEGER,
    last_id CHAR(32),
    seen INTEGER NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    problems TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    finished_at DATETIME,
    lease_until DATETIME,
    idempotency_key VARCHAR(255),
    CONSTRAINT pk_batch PRIMARY KEY (id)
);
CREATE INDEX ix_batch_open ON batch (id) WHERE state IN ('waiting', 'running');
CREATE UNIQUE INDEX uq_batch_idempotency_key ON batch (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE breaker (
    trigger_id CHAR(32) NOT NULL,
    trips INTEGER NOT NULL,
    since DATETIME NOT NULL,
    open_until DATETIME,
    usual_rate INTEGER,
    usual_until DATETIME,
    CONSTRAINT pk_breaker PRIMARY KEY (trigger_id)
);

CREATE TABLE budget (
    root_id CHAR(32) NOT NULL,
    used INTEGER NOT NULL,
    maximum INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_budget PRIMARY KEY (root_id)
);

CREATE TABLE buffered_match (
    trigger_id CHAR(32) NOT NULL,
    event_id CHAR(32) NOT NULL,
    part INTEGER NOT NULL,
    parts INTEGER DEFAULT '1' NOT NULL,
    "key" VARCHAR(32) NOT NULL,
    trigger_version INTEGER NOT NULL,
    event_time DATETIME NOT NULL,
    bytes INTEGER NOT NULL,
    round INTEGER DEFAULT '0' NOT NULL,
    root_id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_buffered_match PRIMARY KEY (trigger_id, event_id)
);
CREATE INDEX ix_buffered_match_buffer ON buffered_match (trigger_id, "key", event_id);

CREATE TABLE canary_execution (
    execution_id CHAR(32) NOT NULL,
    canary_id CHAR(32) NOT NULL,
    unit VARCHAR(16) NOT NULL,
    is_canary BOOLEAN NOT NULL,
    stage INTEGER NOT NULL,
    outcome VARCHAR(16),
    CONSTRAINT pk_canary_execution PRIMARY KEY (execution_id)
);
CREATE INDEX ix_canary_execution_open ON canary_execution (canary_id, execution_id) WHERE outcome IS NULL;
CREATE INDEX ix_canary_execution_unit ON canary_execution (canary_id, unit);

CREATE TABLE cancellation (
    trigger_id CHAR(32) NOT NULL,
    event_id CHAR(32) NOT NULL,
    rule INTEGER NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_cancellation PRIMARY KEY (trigger_id, event_id, rule)
);

CREATE TABLE clock (
    name VARCHAR(16) NOT NULL,
    reached_at DATETIME NOT NULL,
    ahead BIGINT NOT NULL,
    since DATETIME NOT NULL,
    CONSTRAINT pk_clock PRIMARY KEY (name)
);

CREATE TABLE concurrency_group (
    "key" VARCHAR(32) NOT NULL,
    text TEXT NOT NULL,
    capacity INTEGER NOT NULL,
    CONSTRAINT pk_concurrency_group PRIMARY KEY ("key")
);

CREATE TABLE counter (
    name VARCHAR(64) NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_counter PRIMARY KEY (name)
);

CREATE TABLE durable_call (
    parent_id CHAR(32) NOT NULL,
    step_key VARCHAR(64) NOT NULL,
    execution_id CHAR(32) NOT NULL,
    CONSTRAINT pk_durable_call PRIMARY KEY (parent_id, step_key)
);

CREATE TABLE embedding (
    kind VARCHAR(16) NOT NULL,
    owner_id CHAR(32) NOT NULL,
    model VARCHAR(200) NOT NULL,
    text_sha256 VARCHAR(64) NOT NULL,
    call_id CHAR(32),
    dim INTEGER,
    vector BLOB,
    CONSTRAINT pk_embedding PRIMARY KEY (kind, owner_id, model)
);
CREATE INDEX ix_embedding_call_id ON embedding (call_id) WHERE call_id IS NOT NULL;

CREATE TABLE environment (
    "key" VARCHAR(64) NOT NULL,
    requirements TEXT NOT NULL,
    lock TEXT NOT NULL,
    python VARCHAR(16) NOT NULL,
    platform VARCHAR(64) NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_environment PRIMARY KEY ("key")
);

CREATE TABLE event (
    id CHAR(32) NOT NULL,
    type VARCHAR(255) NOT NULL,
    source TEXT NOT NULL,
    subject TEXT,
    time DATETIME NOT NULL,
    data TEXT,
    root_id CHAR(32) NOT NULL,
    cause_execution_id CHAR(32),
    depth INTEGER NOT NULL,
    chain TEXT NOT NULL,
    dedup_key VARCHAR(255),
    state VARCHAR(16) NOT NULL,
    route_attempts INTEGER NOT NULL,
    problem TEXT,
    routed_at DATETIME,
    extensions TEXT,
    CONSTRAINT pk_event PRIMARY KEY (id)
);
CREATE INDEX ix_event_cause_execution_id ON event (cause_execution_id) WHERE cause_execution_id IS NOT NULL;
CREATE INDEX ix_event_root_id ON event (root_id);
CREATE INDEX ix_event_type ON event (type, id);
CREATE UNIQUE INDEX uq_event_dedup_key ON event (dedup_key) WHERE dedup_key IS NOT NULL;

CREATE TABLE execution (
    id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    version INTEGER NOT NULL,
    version_id CHAR(32) NOT NULL,
    cause VARCHAR(16) NOT NULL,
    trigger_id CHAR(32),
    event_id CHAR(32),
    parent_id CHAR(32),
    replay_of CHAR(32),
    root_id CHAR(32) NOT NULL,
    depth INTEGER NOT NULL,
    chain TEXT NOT NULL,
    idempotency_key VARCHAR(255),
    input TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    released INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    run_at DATETIME NOT NULL,
    expires_at DATETIME,
    lease_until DATETIME,
    worker_id TEXT,
    cancel_requested_at DATETIME,
    versions TEXT,
    result TEXT,
    result_kind VARCHAR(8),
    warnings TEXT,
    error TEXT,
    created_at DATETIME NOT NULL,
    started_at DATETIME,
    finished_at DATETIME,
    has_concurrency BOOLEAN DEFAULT 0 NOT NULL,
    throttle TEXT,
    cancelled_by TEXT,
    ends_with_parent BOOLEAN,
    CONSTRAINT pk_execution PRIMARY KEY (id)
);
CREATE INDEX ix_execution_function ON execution (function, id);
CREATE INDEX ix_execution_parent_id ON execution (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ix_execution_replay_of ON execution (replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX ix_execution_root_id ON execution (root_id);
CREATE UNIQUE INDEX uq_execution_idempotency_key ON execution (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX uq_execution_trigger_id_event_id ON execution (trigger_id, event_id) WHERE trigger_id IS NOT NULL;

CREATE TABLE compensation (
    saga_id CHAR(32) NOT NULL,
    position INTEGER NOT NULL,
    step_id CHAR(32) NOT NULL,
    step_fence INTEGER DEFAULT '0' NOT NULL,
    step_seq INTEGER DEFAULT '0' NOT NULL,
    function VARCHAR(200) NOT NULL,
    compensate VARCHAR(220) NOT NULL,
    state VARCHAR(16) NOT NULL,
    execution_id CHAR(32),
    problem TEXT,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_compensation PRIMARY KEY (saga_id, position),
    CONSTRAINT uq_compensation_step_id_step_fence_step_seq UNIQUE (step_id, step_fence, step_seq),
    CONSTRAINT fk_compensation_saga_id_execution FOREIGN KEY(saga_id) REFERENCES execution (id),
    CONSTRAINT fk_compensation_step_id_execution FOREIGN KEY(step_id) REFERENCES execution (id)
);
CREATE INDEX ix_compensation_failed ON compensation (saga_id) WHERE state = 'failed';
CREATE INDEX ix_compensation_open ON compensation (saga_id) WHERE state IN ('waiting', 'pending', 'running');

CREATE TABLE file_write (
    path_sha256 VARCHAR(64) NOT NULL,
    content VARCHAR(64) NOT NULL,
    execution_id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_file_write PRIMARY KEY (path_sha256, content, execution_id)
);
CREATE INDEX ix_file_write_time ON file_write (time);

CREATE TABLE firing (
    trigger_id CHAR(32) NOT NULL,
    event_id CHAR(32) NOT NULL,
    trigger_version INTEGER NOT NULL,
    decision VARCHAR(16) NOT NULL,
    reason VARCHAR(32),
    limit_value INTEGER,
    actual_value INTEGER,
    detail TEXT,
    chain TEXT,
    execution_id CHAR(32),
    root_id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    joint BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT pk_firing PRIMARY KEY (trigger_id, event_id)
);
CREATE INDEX ix_firing_event_id ON firing (event_id);
CREATE INDEX ix_firing_joint ON firing (execution_id) WHERE joint;
CREATE INDEX ix_firing_root_id ON firing (root_id);
CREATE INDEX ix_firing_suppressed ON firing (time) WHERE decision = 'suppressed';

CREATE TABLE function (
    id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    active INTEGER,
    latest INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    labels TEXT DEFAULT '[]' NOT NULL,
    log_policy VARCHAR(32) DEFAULT 'full' NOT NULL,
    run_id CHAR(32),
    canary_id CHAR(32),
    CONSTRAINT pk_function PRIMARY KEY (id),
    CONSTRAINT uq_function_name UNIQUE (name)
);

CREATE TABLE activation (
    id CHAR(32) NOT NULL,
    function_id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    version INTEGER NOT NULL,
    previous INTEGER,
    reason VARCHAR(16) NOT NULL,
    proposal_id CHAR(32),
    author TEXT NOT NULL,
    cause_execution_id CHAR(32),
    at DATETIME NOT NULL,
    ended_at DATETIME,
    ended_by TEXT,
    CONSTRAINT pk_activation PRIMARY KEY (id),
    CONSTRAINT fk_activation_function_id_function FOREIGN KEY(function_id) REFERENCES function (id)
);
CREATE INDEX ix_activation_function_id ON activation (function_id, at);
CREATE UNIQUE INDEX uq_activation_open ON activation (function_id) WHERE ended_at IS NULL;

CREATE TABLE canary (
    id CHAR(32) NOT NULL,
    function_id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    version INTEGER NOT NULL,
    base INTEGER NOT NULL,
    proposal_id CHAR(32),
    unit VARCHAR(16) NOT NULL,
    share FLOAT NOT NULL,
    salt VARCHAR(64) NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason TEXT,
    edges TEXT NOT NULL,
    tilts TEXT NOT NULL,
    stages TEXT NOT NULL,
    round INTEGER NOT NULL,
    author TEXT NOT NULL,
    started_at DATETIME NOT NULL,
    deadline DATETIME NOT NULL,
    decided_at DATETIME,
    decided_by TEXT,
    CONSTRAINT pk_canary PRIMARY KEY (id),
    CONSTRAINT fk_canary_function_id_function FOREIGN KEY(function_id) REFERENCES function (id)
);
CREATE INDEX ix_canary_function ON canary (function, id);
CREATE UNIQUE INDEX uq_canary_open ON canary (function_id) WHERE state IN ('open', 'held');

CREATE TABLE function_version (
    id CHAR(32) NOT NULL,
    function_id CHAR(32) NOT NULL,
    number INTEGER NOT NULL,
    source TEXT NOT NULL,
    source_sha256 VARCHAR(64) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    is_async BOOLEAN NOT NULL,
    parameters TEXT NOT NULL,
    input_schema TEXT,
    output_schema TEXT,
    declared TEXT NOT NULL,
    imports TEXT NOT NULL,
    dependencies TEXT NOT NULL,
    secrets TEXT NOT NULL,
    permissions TEXT NOT NULL,
    metadata TEXT NOT NULL,
    output_patterns TEXT NOT NULL,
    limits TEXT NOT NULL,
    warnings TEXT NOT NULL,
    author TEXT NOT NULL,
    cause_execution_id CHAR(32),
    created_at DATETIME NOT NULL,
    requirements TEXT DEFAULT '[]' NOT NULL,
    grants TEXT DEFAULT '{}' NOT NULL,
    reuse BOOLEAN DEFAULT 0 NOT NULL,
    findings TEXT DEFAULT '[]' NOT NULL,
    environment VARCHAR(64),
    environment_error TEXT,
    compensate VARCHAR(220),
    CONSTRAINT pk_function_version PRIMARY KEY (id),
    CONSTRAINT uq_function_version_function_id_number UNIQUE (function_id, number),
    CONSTRAINT fk_function_version_function_id_function FOREIGN KEY(function_id) REFERENCES function (id)
);

CREATE TABLE gate_policy (
    id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    number INTEGER NOT NULL,
    applies_to TEXT NOT NULL,
    rules TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    retired_at DATETIME,
    CONSTRAINT pk_gate_policy PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_gate_policy_open ON gate_policy (name) WHERE retired_at IS NULL;

CREATE TABLE gateway (
    name VARCHAR(200) NOT NULL,
    started_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    calls INTEGER NOT NULL,
    CONSTRAINT pk_gateway PRIMARY KEY (name)
);

CREATE TABLE grant_approval (
    id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    value TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_grant_approval PRIMARY KEY (id),
    CONSTRAINT uq_grant_approval_function_sha256_kind_value UNIQUE (function, sha256, kind, value)
);

CREATE TABLE idempotency_key (
    trigger_id CHAR(32) NOT NULL,
    "key" VARCHAR(32) NOT NULL,
    text TEXT NOT NULL,
    event_id CHAR(32) NOT NULL,
    expires_at DATETIME NOT NULL,
    CONSTRAINT pk_idempotency_key PRIMARY KEY (trigger_id, "key")
);
CREATE INDEX ix_idempotency_key_expires_at ON idempotency_key (expires_at);

CREATE TABLE in_flight (
    execution_id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    trigger_id CHAR(32),
    priority INTEGER NOT NULL,
    queue_at DATETIME NOT NULL,
    expires_at DATETIME,
    throttle_key VARCHAR(32),
    throttle_place DATETIME,
    dispatched_at DATETIME,
    dispatch_count INTEGER NOT NULL,
    claimed BOOLEAN NOT NULL,
    CONSTRAINT pk_in_flight PRIMARY KEY (execution_id)
);

CREATE TABLE llm_call (
    id CHAR(32) NOT NULL,
    root_id CHAR(32) NOT NULL,
    execution_id CHAR(32),
    function VARCHAR(200) NOT NULL,
    fence INTEGER,
    agent VARCHAR(200),
    user_name VARCHAR(200),
    number INTEGER NOT NULL,
    request_sha256 VARCHAR(64) NOT NULL,
    nth INTEGER NOT NULL,
    kind VARCHAR(8) NOT NULL,
    state VARCHAR(16) NOT NULL,
    model VARCHAR(200) NOT NULL,
    asked VARCHAR(200) NOT NULL,
    stream BOOLEAN NOT NULL,
    request TEXT,
    request_bytes INTEGER NOT NULL,
    max_tokens INTEGER NOT NULL,
    response TEXT,
    error TEXT,
    finish_reason VARCHAR(32),
    tries INTEGER NOT NULL,
    model_tries INTEGER NOT NULL,
    repair TEXT,
    due_at DATETIME NOT NULL,
    reserved BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    quotas TEXT NOT NULL,
    cost BIGINT NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    estimated BOOLEAN NOT NULL,
    gateway VARCHAR(200),
    lease_until DATETIME,
    created_at DATETIME NOT NULL,
    sent_at DATETIME,
    ended_at DATETIME,
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
    root_id CHAR(32) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    content TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_llm_content PRIMARY KEY (root_id, sha256)
);

CREATE TABLE llm_partial (
    call_id CHAR(32) NOT NULL,
    text TEXT NOT NULL,
    at DATETIME NOT NULL,
    CONSTRAINT pk_llm_partial PRIMARY KEY (call_id),
    CONSTRAINT fk_llm_partial_call_id_llm_call FOREIGN KEY(call_id) REFERENCES llm_call (id)
);

CREATE TABLE llm_try (
    call_id CHAR(32) NOT NULL,
    number INTEGER NOT NULL,
    model VARCHAR(200) NOT NULL,
    at DATETIME NOT NULL,
    status INTEGER,
    problem TEXT,
    retry_after FLOAT,
    seconds FLOAT NOT NULL,
    cost BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    CONSTRAINT pk_llm_try PRIMARY KEY (call_id, number),
    CONSTRAINT fk_llm_try_call_id_llm_call FOREIGN KEY(call_id) REFERENCES llm_call (id)
);

CREATE TABLE log (
    execution_id CHAR(32) NOT NULL,
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    stream VARCHAR(8) NOT NULL,
    level VARCHAR(8) NOT NULL,
    text TEXT NOT NULL,
    offset_seconds FLOAT NOT NULL,
    CONSTRAINT pk_log PRIMARY KEY (execution_id, fence, seq),
    CONSTRAINT fk_log_execution_id_execution FOREIGN KEY(execution_id) REFERENCES execution (id)
);

CREATE TABLE login_link (
    hash VARCHAR(64) NOT NULL,
    expires_at DATETIME NOT NULL,
    CONSTRAINT pk_login_link PRIMARY KEY (hash)
);

CREATE TABLE match_buffer (
    trigger_id CHAR(32) NOT NULL,
    "key" VARCHAR(32) NOT NULL,
    text TEXT NOT NULL,
    kind VARCHAR(16) DEFAULT 'debounce' NOT NULL,
    opened_at DATETIME NOT NULL,
    due_at DATETIME,
    memory TEXT NOT NULL,
    count INTEGER DEFAULT '0' NOT NULL,
    bytes BIGINT DEFAULT '0' NOT NULL,
    round INTEGER DEFAULT '0' NOT NULL,
    changed BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_match_buffer PRIMARY KEY (trigger_id, "key")
);
CREATE INDEX ix_match_buffer_due ON match_buffer (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE memory (
    id CHAR(32) NOT NULL,
    scope VARCHAR(16) NOT NULL,
    owner VARCHAR(200) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    text TEXT NOT NULL,
    text_sha256 VARCHAR(64) NOT NULL,
    importance FLOAT NOT NULL,
    source_execution_id CHAR(32),
    run_id CHAR(32),
    author TEXT NOT NULL,
    untrusted BOOLEAN NOT NULL,
    created_at DATETIME NOT NULL,
    expires_at DATETIME,
    CONSTRAINT pk_memory PRIMARY KEY (id)
);
CREATE INDEX ix_memory_expires_at ON memory (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_memory_owner ON memory (scope, owner, id);
CREATE INDEX ix_memory_run_id ON memory (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ix_memory_source ON memory (source_execution_id) WHERE source_execution_id IS NOT NULL;
CREATE UNIQUE INDEX uq_memory_text ON memory (scope, owner, text_sha256);

CREATE TABLE meter (
    root_id CHAR(32) NOT NULL,
    usd_limit BIGINT NOT NULL,
    usd_spent BIGINT NOT NULL,
    usd_reserved BIGINT NOT NULL,
    tokens_limit BIGINT NOT NULL,
    tokens_spent BIGINT NOT NULL,
    tokens_reserved BIGINT NOT NULL,
    calls_limit BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    tool_calls_limit BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    children_limit BIGINT NOT NULL,
    children BIGINT NOT NULL,
    proposals_limit BIGINT NOT NULL,
    proposals BIGINT NOT NULL,
    deadline_at DATETIME NOT NULL,
    warned_at DATETIME,
    exceeded_at DATETIME,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_meter PRIMARY KEY (root_id)
);

CREATE TABLE model (
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    adapter VARCHAR(16) NOT NULL,
    provider_model TEXT NOT NULL,
    api_base TEXT,
    secret VARCHAR(200),
    capabilities TEXT NOT NULL,
    context INTEGER NOT NULL,
    max_output INTEGER NOT NULL,
    price_in BIGINT NOT NULL,
    price_out BIGINT NOT NULL,
    price_cached BIGINT NOT NULL,
    calls_per_minute INTEGER,
    tokens_per_minute INTEGER,
    slots INTEGER NOT NULL,
    timeout FLOAT NOT NULL,
    fallbacks TEXT NOT NULL,
    note TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_model PRIMARY KEY (name)
);

CREATE TABLE model_health (
    model VARCHAR(200) NOT NULL,
    failures INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    open_until DATETIME,
    trial_call_id CHAR(32),
    problem TEXT,
    calls_allowed_at DATETIME,
    tokens_allowed_at DATETIME,
    CONSTRAINT pk_model_health PRIMARY KEY (model),
    CONSTRAINT fk_model_health_model_model FOREIGN KEY(model) REFERENCES model (name)
);

CREATE TABLE module (
    sha256 VARCHAR(64) NOT NULL,
    source TEXT NOT NULL,
    CONSTRAINT pk_module PRIMARY KEY (sha256)
);

CREATE TABLE open_cancel (
    execution_id CHAR(32) NOT NULL,
    whole_tree BOOLEAN NOT NULL,
    author TEXT NOT NULL,
    requested_at DATETIME NOT NULL,
    after_id CHAR(32),
    found BOOLEAN DEFAULT 0 NOT NULL,
    pass_id CHAR(32),
    CONSTRAINT pk_open_cancel PRIMARY KEY (execution_id, whole_tree)
);

CREATE TABLE outbox (
    id CHAR(32) NOT NULL,
    event_ids BLOB NOT NULL,
    count INTEGER NOT NULL,
    first_id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    claimed_until DATETIME,
    CONSTRAINT pk_outbox PRIMARY KEY (id)
);

CREATE TABLE proposal (
    id CHAR(32) NOT NULL,
    function VARCHAR(200) NOT NULL,
    function_id CHAR(32) NOT NULL,
    version INTEGER NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    base_version INTEGER,
    state VARCHAR(16) NOT NULL,
    reason TEXT,
    description TEXT NOT NULL,
    tests TEXT NOT NULL,
    is_ephemeral BOOLEAN NOT NULL,
    rules TEXT NOT NULL,
    policies TEXT NOT NULL,
    rights TEXT NOT NULL,
    author TEXT NOT NULL,
    root_id CHAR(32),
    run_id CHAR(32),
    execution_id CHAR(32),
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    ended_at DATETIME,
    CONSTRAINT pk_proposal PRIMARY KEY (id),
    CONSTRAINT fk_proposal_function_id_function FOREIGN KEY(function_id) REFERENCES function (id)
);
CREATE INDEX ix_proposal_function_id ON proposal (function_id, version);
CREATE INDEX ix_proposal_open ON proposal (expires_at) WHERE ended_at IS NULL;
CREATE INDEX ix_proposal_run_id ON proposal (run_id);

CREATE TABLE gate_check (
    proposal_id CHAR(32) NOT NULL,
    name VARCHAR(32) NOT NULL,
    position INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    report TEXT NOT NULL,
    tries INTEGER NOT NULL,
    worker VARCHAR(200),
    lease_until DATETIME,
    seconds FLOAT,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_gate_check PRIMARY KEY (proposal_id, name),
    CONSTRAINT fk_gate_check_proposal_id_proposal FOREIGN KEY(proposal_id) REFERENCES proposal (id)
);
CREATE INDEX ix_gate_check_open ON gate_check (proposal_id, position) WHERE state IN ('pending', 'running');

CREATE TABLE quota (
    scope VARCHAR(16) NOT NULL,
    name VARCHAR(200) NOT NULL,
    usd BIGINT,
    tokens BIGINT,
    calls BIGINT,
    author TEXT NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_quota PRIMARY KEY (scope, name)
);

CREATE TABLE quota_day (
    scope VARCHAR(16) NOT NULL,
    name VARCHAR(200) NOT NULL,
    day DATE NOT NULL,
    usd_spent BIGINT NOT NULL,
    usd_reserved BIGINT NOT NULL,
    tokens_spent BIGINT NOT NULL,
    tokens_reserved BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    warned_at DATETIME,
    exceeded_at DATETIME,
    CONSTRAINT pk_quota_day PRIMARY KEY (scope, name, day)
);

CREATE TABLE rate_limit (
    owner_id CHAR(32) NOT NULL,
    control VARCHAR(16) NOT NULL,
    "key" VARCHAR(32) NOT NULL,
    text TEXT NOT NULL,
    next_allowed_at DATETIME NOT NULL,
    dropped BIGINT NOT NULL,
    CONSTRAINT pk_rate_limit PRIMARY KEY (owner_id, control, "key")
);
CREATE INDEX ix_rate_limit_next_allowed_at ON rate_limit (next_allowed_at);

CREATE TABLE resolution (
    request VARCHAR(64) NOT NULL,
    environment VARCHAR(64) NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_resolution PRIMARY KEY (request),
    CONSTRAINT fk_resolution_environment_environment FOREIGN KEY(environment) REFERENCES environment ("key")
);

CREATE TABLE routing_queue (
    quarantined BOOLEAN DEFAULT 0 NOT NULL,
    event_id CHAR(32) NOT NULL,
    route_after DATETIME,
    published BOOLEAN DEFAULT 0 NOT NULL,
    CONSTRAINT pk_routing_queue PRIMARY KEY (quarantined, event_id)
);

CREATE TABLE run (
    id CHAR(32) NOT NULL,
    root_id CHAR(32) NOT NULL,
    parent_run_id CHAR(32),
    agent VARCHAR(200),
    agent_version INTEGER,
    function VARCHAR(200) NOT NULL,
    definition TEXT NOT NULL,
    goal TEXT NOT NULL,
    user_name VARCHAR(200),
    author TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(32),
    detail TEXT,
    step INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    memo TEXT NOT NULL,
    pending TEXT,
    allowed TEXT NOT NULL,
    pause_requested_at DATETIME,
    waiting_since DATETIME,
    result TEXT,
    checked BOOLEAN,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    ended_at DATETIME,
    CONSTRAINT pk_run PRIMARY KEY (id)
);
CREATE INDEX ix_run_agent ON run (agent, id);
CREATE INDEX ix_run_open ON run (id) WHERE ended_at IS NULL;
CREATE INDEX ix_run_root_id ON run (root_id);

CREATE TABLE approval (
    id CHAR(32) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    state VARCHAR(16) NOT NULL,
    root_id CHAR(32) NOT NULL,
    run_id CHAR(32),
    execution_id CHAR(32),
    proposal_id CHAR(32),
    payload TEXT NOT NULL,
    answer TEXT,
    feedback TEXT,
    decided_by TEXT,
    requested_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    decided_at DATETIME,
    CONSTRAINT pk_approval PRIMARY KEY (id),
    CONSTRAINT fk_approval_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_approval_pending ON approval (expires_at) WHERE state = 'pending';
CREATE INDEX ix_approval_proposal_id ON approval (proposal_id) WHERE proposal_id IS NOT NULL;
CREATE INDEX ix_approval_run_id ON approval (run_id);

CREATE TABLE run_step (
    run_id CHAR(32) NOT NULL,
    number INTEGER NOT NULL,
    kind VARCHAR(16) NOT NULL,
    execution_id CHAR(32) NOT NULL,
    given_hash VARCHAR(64),
    plan_hash VARCHAR(64),
    error_hash VARCHAR(64),
    asked_hash VARCHAR(64),
    paused BOOLEAN NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_run_step PRIMARY KEY (run_id, number),
    CONSTRAINT uq_run_step_execution_id UNIQUE (execution_id),
    CONSTRAINT fk_run_step_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);

CREATE TABLE run_wait (
    run_id CHAR(32) NOT NULL,
    target_id CHAR(32) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    CONSTRAINT pk_run_wait PRIMARY KEY (run_id, target_id),
    CONSTRAINT fk_run_wait_run_id_run FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_run_wait_target_id ON run_wait (target_id);

CREATE TABLE secret (
    name VARCHAR(200) NOT NULL,
    sealed BLOB NOT NULL,
    version INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_secret PRIMARY KEY (name)
);

CREATE TABLE slot (
    group_key VARCHAR(32) NOT NULL,
    execution_id CHAR(32) NOT NULL,
    rule INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    position CHAR(32) NOT NULL,
    queue_at DATETIME NOT NULL,
    taken_at DATETIME,
    CONSTRAINT pk_slot PRIMARY KEY (group_key, execution_id),
    CONSTRAINT fk_slot_execution_id_execution FOREIGN KEY(execution_id) REFERENCES execution (id)
);
CREATE INDEX ix_slot_execution_id ON slot (execution_id);
CREATE INDEX ix_slot_taken ON slot (group_key) WHERE taken_at IS NOT NULL;
CREATE INDEX ix_slot_waiting ON slot (group_key, queue_at, position) WHERE taken_at IS NULL;

CREATE TABLE source (
    id CHAR(32) NOT NULL,
    kind VARCHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    version INTEGER NOT NULL,
    config TEXT NOT NULL,
    note TEXT,
    author TEXT NOT NULL,
    changed BIGINT NOT NULL,
    holder TEXT,
    fence INTEGER NOT NULL,
    lease_until DATETIME,
    cursor TEXT NOT NULL,
    problem TEXT,
    problem_at DATETIME,
    last_event_at DATETIME,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    refused BIGINT DEFAULT '0' NOT NULL,
    waiting BIGINT,
    looked_at DATETIME,
    paused_until DATETIME,
    refusals TEXT,
    CONSTRAINT pk_source PRIMARY KEY (id),
    CONSTRAINT uq_source_kind_name UNIQUE (kind, name)
);
CREATE INDEX ix_source_changed ON source (changed);

CREATE TABLE delivery_receipt (
    source_id CHAR(32) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    event_id CHAR(32) NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_delivery_receipt PRIMARY KEY (source_id, "key"),
    CONSTRAINT fk_delivery_receipt_source_id_source FOREIGN KEY(source_id) REFERENCES source (id)
);
CREATE INDEX ix_delivery_receipt_time ON delivery_receipt (time);

CREATE TABLE file_seen (
    source_id CHAR(32) NOT NULL,
    path_sha256 VARCHAR(64) NOT NULL,
    path BLOB NOT NULL,
    size BIGINT NOT NULL,
    mtime_ns BIGINT NOT NULL,
    ctime_ns BIGINT NOT NULL,
    inode VARCHAR(48) NOT NULL,
    sha256 VARCHAR(64),
    problem TEXT,
    seen_at DATETIME NOT NULL,
    CONSTRAINT pk_file_seen PRIMARY KEY (source_id, path_sha256),
    CONSTRAINT fk_file_seen_source_id_source FOREIGN KEY(source_id) REFERENCES source (id)
);
CREATE INDEX ix_file_seen_inode ON file_seen (source_id, inode);

CREATE TABLE schedule (
    source_id CHAR(32) NOT NULL,
    version INTEGER NOT NULL,
    timing VARCHAR(64) NOT NULL,
    next_at DATETIME,
    fire_at DATETIME,
    last_at DATETIME,
    missed BIGINT NOT NULL,
    watched_from DATETIME,
    CONSTRAINT pk_schedule PRIMARY KEY (source_id),
    CONSTRAINT fk_schedule_source_id_source FOREIGN KEY(source_id) REFERENCES source (id)
);
CREATE INDEX ix_schedule_due ON schedule (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX ix_schedule_watched ON schedule (watched_from) WHERE watched_from IS NOT NULL;

CREATE TABLE schedule_tick (
    schedule_id CHAR(32) NOT NULL,
    fire_time_utc DATETIME NOT NULL,
    event_id CHAR(32) NOT NULL,
    origin VARCHAR(16) NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_schedule_tick PRIMARY KEY (schedule_id, fire_time_utc),
    CONSTRAINT fk_schedule_tick_schedule_id_source FOREIGN KEY(schedule_id) REFERENCES source (id)
);
CREATE INDEX ix_schedule_tick_event_id ON schedule_tick (event_id);
CREATE INDEX ix_schedule_tick_time ON schedule_tick (time);

CREATE TABLE span (
    execution_id CHAR(32) NOT NULL,
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    parent_seq INTEGER,
    function VARCHAR(200) NOT NULL,
    version INTEGER NOT NULL,
    input TEXT,
    output TEXT,
    error TEXT,
    offset_seconds FLOAT NOT NULL,
    duration_seconds FLOAT,
    CONSTRAINT pk_span PRIMARY KEY (execution_id, fence, seq),
    CONSTRAINT fk_span_execution_id_execution FOREIGN KEY(execution_id) REFERENCES execution (id)
);

CREATE TABLE state (
    function VARCHAR(200) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at DATETIME NOT NULL,
    CONSTRAINT pk_state PRIMARY KEY (function, "key")
);

CREATE TABLE suppression (
    trigger_id CHAR(32) NOT NULL,
    root_id CHAR(32) NOT NULL,
    reason VARCHAR(32) NOT NULL,
    count INTEGER NOT NULL,
    first_event_id CHAR(32) NOT NULL,
    first_at DATETIME NOT NULL,
    last_at DATETIME NOT NULL,
    resumed INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_suppression PRIMARY KEY (trigger_id, root_id, reason)
);

CREATE TABLE switch (
    name VARCHAR(64) NOT NULL,
    note TEXT,
    author TEXT NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_switch PRIMARY KEY (name)
);

CREATE TABLE tally (
    kind VARCHAR(16) NOT NULL,
    name VARCHAR(255) NOT NULL,
    interval_seconds INTEGER NOT NULL,
    begins_at DATETIME NOT NULL,
    version INTEGER NOT NULL,
    outcome VARCHAR(32) NOT NULL,
    count BIGINT NOT NULL,
    queued TEXT NOT NULL,
    run TEXT NOT NULL,
    CONSTRAINT pk_tally PRIMARY KEY (kind, name, interval_seconds, begins_at, version, outcome)
);
CREATE INDEX ix_tally_interval_seconds_begins_at ON tally (interval_seconds, begins_at);

CREATE TABLE "trigger" (
    id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    origin VARCHAR(16) NOT NULL,
    version INTEGER NOT NULL,
    note TEXT,
    changed BIGINT NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    labels TEXT DEFAULT '[]' NOT NULL,
    CONSTRAINT pk_trigger PRIMARY KEY (id),
    CONSTRAINT uq_trigger_name UNIQUE (name)
);
CREATE INDEX ix_trigger_changed ON "trigger" (changed);

CREATE TABLE trigger_failure (
    trigger_id CHAR(32) NOT NULL,
    count INTEGER NOT NULL,
    unreported INTEGER NOT NULL,
    version INTEGER NOT NULL,
    event_id CHAR(32) NOT NULL,
    reason VARCHAR(32) NOT NULL,
    error TEXT NOT NULL,
    at DATETIME NOT NULL,
    reported_at DATETIME,
    CONSTRAINT pk_trigger_failure PRIMARY KEY (trigger_id)
);

CREATE TABLE trigger_version (
    trigger_id CHAR(32) NOT NULL,
    number INTEGER NOT NULL,
    definition TEXT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    author TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    CONSTRAINT pk_trigger_version PRIMARY KEY (trigger_id, number),
    CONSTRAINT fk_trigger_version_trigger_id_trigger FOREIGN KEY(trigger_id) REFERENCES "trigger" (id)
);

CREATE TABLE user_account (
    id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    role VARCHAR(16) NOT NULL,
    rights TEXT NOT NULL,
    labels TEXT,
    password VARCHAR(200),
    password_at DATETIME,
    identity VARCHAR(64),
    preferences TEXT NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    last_login_at DATETIME,
    CONSTRAINT pk_user_account PRIMARY KEY (id),
    CONSTRAINT uq_user_account_name UNIQUE (name)
);
CREATE UNIQUE INDEX uq_user_account_identity ON user_account (identity) WHERE identity IS NOT NULL;

CREATE TABLE login (
    id CHAR(32) NOT NULL,
    user_id CHAR(32),
    hash VARCHAR(64) NOT NULL,
    created_at DATETIME NOT NULL,
    confirmed_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    address VARCHAR(64) NOT NULL,
    agent TEXT NOT NULL,
    CONSTRAINT pk_login PRIMARY KEY (id),
    CONSTRAINT uq_login_hash UNIQUE (hash),
    CONSTRAINT fk_login_user_id_user_account FOREIGN KEY(user_id) REFERENCES user_account (id)
);
CREATE INDEX ix_login_user_id ON login (user_id);

CREATE TABLE token (
    id CHAR(32) NOT NULL,
    user_id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    prefix VARCHAR(16) NOT NULL,
    role VARCHAR(16) NOT NULL,
    rights TEXT NOT NULL,
    labels TEXT,
    created_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    last_used_at DATETIME,
    CONSTRAINT pk_token PRIMARY KEY (id),
    CONSTRAINT uq_token_hash UNIQUE (hash),
    CONSTRAINT uq_token_user_id_name UNIQUE (user_id, name),
    CONSTRAINT fk_token_user_id_user_account FOREIGN KEY(user_id) REFERENCES user_account (id)
);

CREATE TABLE verification (
    code VARCHAR(8) NOT NULL,
    count BIGINT NOT NULL,
    examples TEXT NOT NULL,
    time DATETIME NOT NULL,
    CONSTRAINT pk_verification PRIMARY KEY (code)
);

CREATE TABLE version_mark (
    function_id CHAR(32) NOT NULL,
    version INTEGER NOT NULL,
    mark VARCHAR(16) NOT NULL,
    reason TEXT NOT NULL,
    "by" TEXT NOT NULL,
    canary_id CHAR(32),
    at DATETIME NOT NULL,
    CONSTRAINT pk_version_mark PRIMARY KEY (function_id, version),
    CONSTRAINT fk_version_mark_function_id_function FOREIGN KEY(function_id) REFERENCES function (id)
);

CREATE TABLE version_module (
    version_id CHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    CONSTRAINT pk_version_module PRIMARY KEY (version_id, name),
    CONSTRAINT fk_version_module_version_id_function_version FOREIGN KEY(version_id) REFERENCES function_version (id),
    CONSTRAINT fk_version_module_sha256_module FOREIGN KEY(sha256) REFERENCES module (sha256)
);

CREATE TABLE worker (
    id VARCHAR(200) NOT NULL,
    slots INTEGER NOT NULL,
    isolation VARCHAR(16) NOT NULL,
    started_at DATETIME NOT NULL,
    seen_at DATETIME NOT NULL,
    CONSTRAINT pk_worker PRIMARY KEY (id)
);
