// The tab of an execution with the lines that it printed and logged.

import { useLayoutEffect, useState } from "preact/hooks";
import { get, route } from "../api.ts";
import { useData } from "../data.ts";
import { type Gap, NO_LINES, withPart, withStreamed } from "../log_lines.ts";
import { Log } from "../parts/log.tsx";
import { Show, TabPanel } from "../parts/small.tsx";
import { toastError } from "../parts/toast.tsx";
import { place, setQuery } from "../router.ts";
import type { Attempt, Execution, LogLine } from "../rows.ts";
import { useStream } from "../stream.ts";
import { canCancel } from "./execution_actions.ts";
import { LogPolicyNotice } from "./log_policy.tsx";

const LINES = 1000;
// What a gap is filled with at once: as many as an answer has at most.
const MORE = 5000;

export function LogTab({ row }: { row: Execution }) {
  const [known, setKnown] = useState(NO_LINES);
  const topics = [`execution:${row.id}`];
  const attempts = useData<readonly Attempt[]>(route("executions", row.id, "attempts"), {}, { topics });
  const chosen = place.value.query.get("attempt");
  const fence = chosen !== null && /^\d{1,9}$/.test(chosen) ? Number(chosen) : null;
  const path = route("executions", row.id, "logs");
  const last = useData<readonly LogLine[]>(path, { tail: LINES, fence }, { topics });
  // Before the browser paints: a log that is there is never drawn as empty.
  useLayoutEffect(() => {
    const part = last.data ?? [];
    const before = part.length >= LINES ? "unknown" : fence === null ? "log" : "attempt";
    setKnown((all) => withPart(all, part, before));
  }, [last.data]);
  useStream([`logs:${row.id}`], {
    log: (more) => setKnown((all) => withStreamed(all, more)),
    resync: last.reload,
  });
  const fill = async ({ after }: Gap) => {
    try {
      const part = await get<readonly LogLine[]>(path, { after, limit: MORE, fence });
      const from = after !== null ? { line: after } : fence === null ? "log" : "attempt";
      setKnown((all) => withPart(all, part, from));
    } catch (error) {
      toastError(error);
    }
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
              aria-pressed={fence === one.fence}
              onClick={() => setQuery({ attempt: fence === one.fence ? null : one.fence })}
            >
              attempt {one.number}
            </button>
          ))}
        </p>
      )}
      <LogPolicyNotice name={row.function} policy={row.log_policy} />
      <Show of={last}>
        {() => <Log known={known} running={canCancel(row)} fence={fence} onGap={(gap) => void fill(gap)} />}
      </Show>
    </TabPanel>
  );
}
