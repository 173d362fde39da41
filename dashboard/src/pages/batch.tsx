// A batch: one action on many executions, and how far it is.

import { route, send } from "../api.ts";
import { isPending, useData } from "../data.ts";
import { count } from "../format.ts";
import { ask } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Facts, Mark, Name, PageHead, PayloadText, Pill, Show } from "../parts/small.tsx";
import type { Batch } from "../rows.ts";
import { shortId } from "../short_ids.ts";
import { urls } from "../urls.ts";

const TITLE = { retry: "Retry", replay: "Replay", cancel: "Cancel" } as const;

export function BatchPage({ id }: { id: string }) {
  const data = useData<Batch>(route("batches", id), {}, { every: 1 });
  const batch = data.data;
  const open = batch !== null && (batch.state === "waiting" || batch.state === "running");
  const stop = () =>
    ask({
      title: "End the batch?",
      body: "Executions that it has handled stay as they are. The others are left alone.",
      verb: "End the batch",
      danger: true,
      run: async () => {
        data.put(await send<Batch>("DELETE", route("batches", id)));
      },
    });
  return (
    <>
      <PageHead
        title={batch ? `${TITLE[batch.action]} of many executions` : "Batch"}
        mark={<Mark name="queue" />}
        waits={isPending(data)}
        actions={open && <Button needs="operate" onClick={stop}>End</Button>}
      >
        {batch && <Pill tone={batch.failed ? "bad" : open ? "run" : "ok"}>{batch.state}</Pill>}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(row) => (
            <>
              <progress
                class="progress"
                max={row.total ?? row.limit}
                value={row.seen}
                aria-label="Executions handled"
              />
              <Facts
                of={[
                  ["Handled", `${count(row.seen)} of ${row.total === null ? "many" : count(row.total)}`],
                  ["Done", count(row.done)],
                  ["Failed", row.failed ? count(row.failed) : null],
                  ["Version", row.latest ? "the active one" : "the one that ran"],
                  ["Reason", row.reason ? <PayloadText text={row.reason} /> : null],
                  ["By", <Name text={row.author} />],
                  ["Started", <Ago time={row.created_at} />],
                  ["Ended", row.finished_at && <Ago time={row.finished_at} />],
                  ["Filter", row.filters && <PayloadText text={worded(row.filters)} />],
                ]}
              />
              {row.problems.length > 0 && (
                <>
                  <h2 class="section">Could not be handled</h2>
                  <ul class="lines">
                    {row.problems.map((problem) => (
                      <li key={problem.execution_id}>
                        <Link to={urls.execution(problem.execution_id)}>
                          <span class="mono">{shortId(problem.execution_id)}</span>
                        </Link>
                        <PayloadText text={problem.error} />
                      </li>
                    ))}
                  </ul>
                </>
              )}
            </>
          )}
        </Show>
      </div>
    </>
  );
}

/** `states: failed, dead; text: order`. */
function worded(filters: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(filters).filter(
    ([, value]) => value !== null && value !== false && !(Array.isArray(value) && value.length === 0),
  );
  return given.map(([name, value]) => (value === true ? name : `${name}: ${[value].flat().join(", ")}`)).join("; ")
    || "all executions";
}
