// The tab of an execution with the lines that it printed and logged.

import { useMemo, useState } from "preact/hooks";
import { get, route } from "../api.ts";
import { useData } from "../data.ts";
import { count } from "../format.ts";
import { Log } from "../parts/log.tsx";
import { Show, TabPanel } from "../parts/small.tsx";
import { place, setQuery } from "../router.ts";
import type { Attempt, Execution, LogLine } from "../rows.ts";
import { useStream } from "../stream.ts";
import { canCancel } from "./execution_actions.ts";
import { LogPolicyNotice } from "./log_policy.tsx";

const LINES = 1000;

export function LogTab({ row }: { row: Execution }) {
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const attempts = useData<readonly Attempt[]>(route("executions", row.id, "attempts"), {}, {
    topics: [`execution:${row.id}`],
  });
  const first = useData<readonly LogLine[]>(route("executions", row.id, "logs"), { tail: LINES }, {
    topics: [`execution:${row.id}`],
  });
  const fence = place.value.query.get("attempt");
  const all = useMemo(() => mergeLines(first.data ?? [], lines), [first.data, lines]);
  useStream([`logs:${row.id}`], {
    log: (more) => setLines((known) => mergeLines(known, more)),
    resync: first.reload,
  });
  const earlier = async () => {
    const begin = await get<readonly LogLine[]>(route("executions", row.id, "logs"), { limit: LINES });
    setLines((known) => mergeLines(begin, known));
  };
  return (
    <TabPanel id="log">
      {attempts.data && attempts.data.length > 1 && (
        <p class="attempts">
          {attempts.data.map((one) => (
            <button
              key={one.fence}
              type="button"
              class="link"
              aria-pressed={fence === String(one.fence)}
              onClick={() => setQuery({ attempt: fence === String(one.fence) ? null : one.fence })}
            >
              attempt {one.number}
            </button>
          ))}
        </p>
      )}
      {(first.data?.length ?? 0) >= LINES && (
        <p class="notice">
          These are the last {count(LINES)} lines.{" "}
          <button type="button" class="link" onClick={() => void earlier()}>
            first lines
          </button>
        </p>
      )}
      <LogPolicyNotice name={row.function} policy={row.log_policy} />
      <Show of={first}>
        {() => <Log lines={all} running={canCancel(row)} fence={fence === null ? null : Number(fence)} />}
      </Show>
    </TabPanel>
  );
}

/** Lines of two parts, each once, in their order. */
export function mergeLines(a: readonly LogLine[], b: readonly LogLine[]): readonly LogLine[] {
  if (!b.length) return a;
  if (!a.length) return b;
  const known = new Map<string, LogLine>();
  for (const line of [...a, ...b]) known.set(`${line.fence}.${line.seq}`, line);
  return [...known.values()].sort((x, y) => x.fence - y.fence || x.seq - y.seq);
}
