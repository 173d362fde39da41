// Builds and reads every address of the dashboard. What a person can see has one address, and the address is the state.

/** An address of the dashboard that this module has built. */
export type Href = string & { readonly built: unique symbol };

export type QueryValue = string | number | boolean | readonly string[] | null | undefined;
export type Query = Readonly<Record<string, QueryValue>>;

/** The text of a query. Empty values are left out; true is `1`; a list repeats its name. */
export function queryText(query: Query): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    if (Array.isArray(value)) for (const one of value) parts.append(name, one);
    else parts.append(name, value === true ? "1" : String(value));
  }
  const text = parts.toString();
  return text ? `?${text}` : "";
}

function build(segments: readonly string[], query: Query = {}): Href {
  return `/${segments.map(encodeURIComponent).join("/")}${queryText(query)}` as Href;
}

/** The same page with another query. */
export function withQuery(path: string, query: Query): Href {
  return `${path}${queryText(query)}` as Href;
}

/** An address of our own from outside: a link the server sent, or the address bar. Null when it is not ours. */
export function ownHref(text: string): Href | null {
  if (!text.startsWith("/") || text.startsWith("//") || /[\u0000-\u001f\\]/.test(text)) return null;
  return text as Href;
}

const list = (name: string) => (query?: Query) => build([name], query);
const one = (name: string) => (id: string, query?: Query) => build([name, id], query);

// Forms have a first word of their own: below `/functions`, a function could have their name.
export const urls = {
  overview: () => build([""]),
  executions: list("executions"),
  execution: one("executions"),
  tree: one("trees"),
  events: list("events"),
  event: one("events"),
  functions: list("functions"),
  function: one("functions"),
  newFunction: (query?: Query) => build(["new", "function"], query),
  version: (name: string, number: number, query?: Query) => build(["functions", name, "v", String(number)], query),
  diff: (name: string, a: number, b: number) => build(["functions", name, "diff", `${a}..${b}`]),
  triggers: list("triggers"),
  trigger: one("triggers"),
  newTrigger: (query?: Query) => build(["new", "trigger"], query),
  map: list("map"),
  schedules: list("schedules"),
  schedule: one("schedules"),
  watches: list("watches"),
  watch: one("watches"),
  webhooks: list("webhooks"),
  webhook: one("webhooks"),
  queues: list("queues"),
  queue: one("queues"),
  newSource: (kind: string, query?: Query) => build(["new", kind], query),
  agents: list("agents"),
  agent: one("agents"),
  runs: list("runs"),
  run: one("runs"),
  models: list("models"),
  model: one("models"),
  newModel: () => build(["new", "model"]),
  calls: list("calls"),
  call: one("calls"),
  spend: list("spend"),
  approvals: list("approvals"),
  suppressions: list("suppressions"),
  secrets: list("secrets"),
  packs: list("packs"),
  pack: one("packs"),
  people: list("people"),
  person: one("people"),
  audit: list("audit"),
  health: list("health"),
  batch: one("batches"),
  login: (query?: Query) => build(["login"], query),
  me: () => build(["me"]),
  find: one("find"),
} as const;

/** The page of an execution, event, function, trigger or source by its kind, or null for a kind without a page. */
export function urlOf(kind: string, name: string): Href | null {
  switch (kind) {
    case "execution":
      return urls.execution(name);
    case "event":
      return urls.event(name);
    case "event_type":
      return urls.events({ type: name });
    case "function":
      return urls.function(name);
    case "trigger":
      return urls.trigger(name);
    case "schedule":
      return urls.schedule(name);
    case "file":
    case "watch":
      return urls.watch(name);
    case "table":
      return urls.watch(name, { kind });
    case "webhook":
      return urls.webhook(name);
    case "queue":
      return urls.queue(name);
    case "pack":
      return urls.pack(name);
    case "model":
      return urls.model(name);
    case "agent":
      return urls.agent(name);
    case "run":
      return urls.run(name);
    case "approval":
      return urls.approvals();
    case "call":
      return urls.call(name);
    case "user":
      return urls.person(name);
    default:
      return null;
  }
}

export type Params = Readonly<Record<string, string>>;

/** The parameters of a path that fits a pattern such as `/functions/:name/v/:n`; null when it does not. */
export function match(pattern: string, path: string): Params | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (let at = 0; at < wanted.length; at++) {
    const want = wanted[at] as string;
    const have = given[at] as string;
    if (want.startsWith(":")) {
      if (!have) return null;
      try {
        params[want.slice(1)] = decodeURIComponent(have);
      } catch {
        return null;
      }
    } else if (want !== have) return null;
  }
  return params;
}
