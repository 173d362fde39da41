// The tab of an execution that says why it ran, waits or failed, and what is undone.

import { action, route, send } from "../api.ts";
import { useData } from "../data.ts";
import { count, visible } from "../format.ts";
import { ask } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Card, Mark, More, Name, PayloadText, Show, State, TabPanel } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import type { Execution, Why } from "../rows.ts";
import { shortId } from "../short_ids.ts";
import { urls } from "../urls.ts";

const UUID = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;

/** A sentence in which ids are links to what they name. */
function Sentence({ text }: { text: string }) {
  return (
    <bdi>
      {text.split(UUID).map((part, at) =>
        at % 2 ? (
          <Link key={at} to={urls.find(part)} title={part}>
            <span class="mono">{shortId(part)}</span>
          </Link>
        ) : (
          visible(part)
        ),
      )}
    </bdi>
  );
}

export function WhyTab({ row, reload }: { row: Execution; reload: () => void }) {
  const why = useData<Why>(route("executions", row.id, "why"), {}, { topics: [`execution:${row.id}`] });
  const undo = (skip: boolean) =>
    ask({
      title: skip ? "Leave this step as it is?" : "Try the compensation again?",
      body: skip ? "Its effect stays. The compensation goes on with the step before it." : undefined,
      verb: skip ? "Skip the step" : "Try again",
      danger: skip,
      ...(skip ? { ask: { label: "Reason", required: true } } : {}),
      run: async (reason) => {
        await send("POST", action("compensate", "executions", row.id), { skip, reason }, { once: true });
        toast({ text: skip ? "Skipped" : "Tried again" });
        reload();
      },
    });
  return (
    <TabPanel id="why">
      <Show of={why}>
        {(found) => (
          <div class="stack">
            <ol class="sentences">
              {found.sentences.map((sentence) => (
                <li key={sentence}>
                  <Sentence text={sentence} />
                </li>
              ))}
            </ol>
            {found.suppressed.length > 0 && (
              <Card title="What guards stopped" more={<More to={urls.suppressions()}>all</More>}>
                <ul class="lines">
                  {found.suppressed.map((one) => (
                    <li key={`${one.event_id}${one.trigger}`}>
                      <Mark name="suppressed" tone="warn" />
                      {one.trigger && (
                        <Link to={urls.trigger(one.trigger)}>
                          <Name text={one.trigger} />
                        </Link>
                      )}
                      <span class="tone-warn">
                        {one.reason}
                        {one.limit !== null && `: limit ${one.limit}, would be ${one.value}`}
                      </span>
                      on <More to={urls.event(one.event_id)}><Name text={one.event_type} /></More>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {row.slots.length > 0 && (
              <Card title="Slots">
                <ul class="lines">
                  {row.slots.map((slot, at) => (
                    <li key={at}>
                      <PayloadText text={slot.group} />
                      <span class="dim">
                        {slot.taken_at
                          ? `has a slot of ${slot.capacity}`
                          : `waits: ${count(slot.ahead)} ahead, ${slot.running} of ${slot.capacity} run`}
                      </span>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {row.compensations.length > 0 && (
              <Card title="Undo plan">
                <ul class="lines">
                  {row.compensations.map((step) => (
                    <li key={step.position}>
                      <State state={step.state} />
                      <Name text={step.compensate} /> <span class="dim">undoes {step.function}</span>
                      {step.problem && <PayloadText text={step.problem} />}
                      {step.execution_id && <More to={urls.execution(step.execution_id)}>its execution</More>}
                      {step.state === "stuck" && (
                        <>
                          <Button needs="operate" onClick={() => undo(false)}>Try again</Button>
                          <Button needs="operate" onClick={() => undo(true)}>Skip…</Button>
                        </>
                      )}
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {row.replays.length > 0 && (
              <Card title="Run again as">
                <ul class="lines">
                  {row.replays.map((id) => (
                    <li key={id}>
                      <More to={urls.execution(id)}>{shortId(id)}</More>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
          </div>
        )}
      </Show>
    </TabPanel>
  );
}
