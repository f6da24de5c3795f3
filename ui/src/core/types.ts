// What the API answers with, as far as the page reads it. Instants are microseconds; names are those of docs/api.md.

export interface Page<T> {
  items: readonly T[];
  next: string | null;
}

export interface JobRecord {
  job_id: string;
  namespace: string;
  kind: string;
  queue: string;
  priority: number;
  request_key: string | null;
  parent_job_id: string | null;
  session_id: string | null;
  created_at: number;
  status: string;
  wait_reason: string | null;
  head_seq: number;
  changed_at?: number;
  worker?: string | null;
  attempts?: number;
  takeovers?: number;
}

export interface Need {
  job_id: string;
  job_kind: string;
  /** `waiting`, or `running` while other work of the job goes on. */
  job_status: string;
  reason: string;
  since: number;
  what: string;
  person: boolean;
  step_key: string | null;
  generation: number;
  tool: string;
  effect: string;
  args: unknown;
  args_digest: string;
  key: string;
  approval_id: string | null;
  question_id: string | null;
  due_at: number | null;
  allowed_at: number | null;
  evidence: unknown;
  /** What an uncertain call raised, with its traceback; nothing, if its worker died. */
  error?: unknown;
  commands: readonly string[];
}

export interface PlanNode {
  name: string;
  tool: string;
  after: readonly string[];
  state: string;
}

export interface Plan {
  plan_id: string;
  at: number;
  nodes: readonly PlanNode[];
}

export interface Budget {
  budget_id: string;
  since: number;
  limits: Record<string, number>;
  spent: Record<string, number>;
}

export interface Job {
  job_id: string;
  namespace: string;
  kind: string;
  queue: string;
  priority: number;
  status: string;
  wait_reason: string | null;
  wake_at: number | null;
  request_key: string | null;
  parent_job_id: string | null;
  session_id: string | null;
  created_at: number;
  started_at: number | null;
  changed_at: number;
  ended_at: number | null;
  input: unknown;
  output: unknown;
  error: unknown;
  attempts: number;
  takeovers: number;
  claims: number;
  worker: string | null;
  last_worker: string | null;
  cancel_requested: boolean;
  cancelled_by: string;
  cancelled_why: string;
  unread: number;
  events: number;
  steps: number;
  calls: Record<string, number>;
  needs: readonly Need[];
  plans: readonly Plan[];
  budgets: readonly Budget[];
}

export interface Usage {
  input?: number;
  output?: number;
  usd_micros?: number | null;
  cached?: boolean;
  [more: string]: unknown;
}

export interface Span {
  kind: "read" | "effect" | "model" | "sleep" | "approval" | "child" | "node";
  name: string;
  step_key: string;
  scope: readonly string[];
  seq: number;
  start_at: number;
  end_at: number | null;
  end_seq?: number | null;
  outcome: string;
  start_known: boolean;
  effect: string;
  key: string;
  attempt: number;
  generation: number;
  worker: string;
  sent_at: readonly number[];
  args: unknown;
  result: unknown;
  error: unknown;
  notes: readonly string[];
  usage: Usage | null;
}

export interface Seam {
  kind: string;
  seq: number;
  at: number;
  text: string;
  worker: string;
  fence: number;
  until: number | null;
  /** What failed the attempt that ends here, with its traceback. */
  error?: unknown;
}

export interface Note {
  seq: number;
  at: number;
  text: string;
  step_key: string | null;
}

export interface Trace {
  job_id: string;
  kind: string;
  status: string;
  start_at: number;
  end_at: number;
  over: boolean;
  spans: readonly Span[];
  seams: readonly Seam[];
  notes: readonly Note[];
  plans: readonly Plan[];
}

export interface JournalEvent {
  seq: number;
  type: string;
  version: number;
  at: number;
  fence: number;
  body: unknown;
  hash: string;
}

export interface Checked {
  job_id: string;
  events: number;
  violations: readonly string[];
}

export interface Accepted {
  job_id: string;
  operation_id: string;
  at_once: boolean;
  repeated: boolean;
}

export interface Submitted {
  job_id: string;
  created: boolean;
}

export interface Worker {
  worker: string;
  label: string;
  state: string;
  host: string;
  pid: number;
  identity: string;
  kinds: readonly string[];
  sessions: readonly { name: string }[];
  queues: readonly string[];
  capabilities: readonly string[];
  concurrency: number;
  holds: number;
  draining: boolean;
  started_at: number;
  seen_at: number;
  drains: boolean;
  drain_asked_at: number | null;
}

export interface AgentEntry {
  guid: string;
  handle: string;
  agentType: string;
  capabilities: readonly string[];
  boundaries: readonly string[];
  hostname: string;
  projectId: string;
  status: string;
  currentTaskCount: number;
  maxConcurrentTasks: number;
  heartbeatIntervalMs: number;
  lastHeartbeat: string;
  source: string;
}

export interface Agent {
  agent_id: string;
  name: string;
  kind: string;
  session_id: string;
  declared: boolean;
  configuration: { model?: string; instructions?: string; tools?: readonly string[] } | null;
}

export interface Agents {
  agents: readonly AgentEntry[];
  items: readonly Agent[];
  next: string | null;
  registry: { source: string; connected: boolean; staleSince: string | null; ignored: number };
}

export interface SessionNode {
  node_id: string;
  parent_node_id: string | null;
  body: unknown;
  caused_by: string | null;
  frame_id: string | null;
  at: number;
}

export interface Session {
  session_id: string;
  revision: number;
  leaf_node_id: string | null;
  active_path: readonly string[];
  nodes: readonly SessionNode[];
  frames: readonly {
    frame_id: string;
    previous_frame_id: string | null;
    status: string;
    reason: string;
    created_at: number;
  }[];
  frame_id: string | null;
  turn_index: number;
  usage: readonly {
    source: string;
    model: string;
    input_tokens: number;
    output_tokens: number;
    cached_input_tokens: number;
    reasoning_tokens: number;
  }[];
}

export interface Batch {
  batch_id: string;
  enqueue_seq: number;
  delivery: string;
  slot: string;
  merge_key: string;
  available_at: number;
  enqueued_at: number;
  state: string;
  items: readonly { item_id: string; kind: string; payload: unknown }[];
  job_id: string | null;
}

export interface Health {
  status: string;
  timestamp: string;
  tier: string | null;
  degraded: readonly string[];
}
