// A model: its fields, its health, what was asked of it, and a test of what it can do.

import { useState } from "preact/hooks";
import type { Model, ModelTests } from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, dollars } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Card, Facts, Mark, More, Name, PageHead, PayloadText, Show, State } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go, place, setQuery } from "../router.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { EditModel } from "./model_form.tsx";
import { Health } from "./model_list.tsx";

export function ModelPage({ name }: { name: string }) {
  const editing = place.value.query.has("edit");
  const data = useData<Model>(route("models", name), {}, { every: editing ? 0 : 5 });
  const [root, setRoot] = useState<string | null>(null);
  const row = data.data;
  const enabled = row?.state === "enabled";
  const edit = () => setQuery({ edit: editing ? null : true }, false);
  const test = () => row && askTest(row, setRoot);
  const turn = () => row && void setState(row, data);
  const [mayTest, mayChange] = [can("operate") && enabled, can("admin") && row !== null];
  useKeys("Model", [
    { keys: "r", label: "Test the model", run: () => test(), when: mayTest },
    { keys: "p", label: enabled ? "Disable" : "Enable", run: () => turn(), when: mayChange },
    { keys: "e", label: "Edit", run: edit, when: mayChange },
  ]);
  return (
    <>
      <PageHead
        title={<Name text={name} />}
        mark={<Mark name="model" />}
        waits={isPending(data)}
        actions={
          row && (
            <>
              <Button needs="operate" keys="r" disabled={!enabled} why="It is disabled." onClick={() => test()}>
                Test…
              </Button>
              <Button needs="admin" keys="p" onClick={() => turn()}>
                {enabled ? "Disable" : "Enable"}
              </Button>
              <Button needs="admin" keys="e" onClick={edit}>
                {editing ? "Stop editing" : "Edit"}
              </Button>
              <Button needs="admin" kind="plain" onClick={() => askRemove(row)}>
                Delete
              </Button>
            </>
          )
        }
      >
        {row && (
          <>
            <State state={row.state} /> <Health of={row} />
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(model) => (
            <div class="stack">
              {model.health.problem && (
                <p class="notice tone-bad" role="alert">
                  <Mark name="warning" /> <PayloadText text={model.health.problem} />
                  {model.health.open_until && (
                    <>
                      {" "}
                      · its breaker is open until <Ago time={model.health.open_until} />
                    </>
                  )}
                </p>
              )}
              {root && <Tests name={name} root={root} />}
              {editing ? (
                <EditModel of={model} data={data} close={() => setQuery({ edit: null }, false)} />
              ) : (
                <About of={model} />
              )}
            </div>
          )}
        </Show>
      </div>
    </>
  );
}

function About({ of }: { of: Model }) {
  const can = of.capabilities;
  const able = [
    can.tools !== "none" && `tools (${can.tools})`,
    can.schema !== "none" && `schemas (${can.schema})`,
    can.stream && "streaming",
    can.vision && "pictures",
    can.dimensions !== null && `embeddings of ${count(can.dimensions)}`,
  ].filter(Boolean);
  return (
    <div class="two-columns">
      <div class="stack">
        <Card title="Today" more={<More to={urls.calls({ model: of.name })}>its calls</More>}>
          <Facts
            of={[
              ["Spent", dollars(of.cost_today)],
              ["Calls", count(of.calls_today)],
              ["Calls now", `${count(of.open_calls)} of ${count(of.slots)}`],
              ["Failed in a row", of.health.failures > 0 && count(of.health.failures)],
            ]}
          />
        </Card>
        <Card title="Prices for a million tokens">
          <Facts
            of={[
              ["Asked", dollars(of.price_in)],
              ["Asked, in the cache", dollars(of.price_cached)],
              ["Answered", dollars(of.price_out)],
            ]}
          />
        </Card>
        <Card title="Limits">
          <Facts
            of={[
              ["Calls at a time", count(of.slots)],
              ["Calls a minute", count(of.calls_per_minute)],
              ["Tokens a minute", count(of.tokens_per_minute)],
              ["Context", `${count(of.context)} tokens`],
              ["Longest answer", `${count(of.max_output)} tokens`],
              ["Timeout", `${count(of.timeout)} s`],
            ]}
          />
        </Card>
      </div>
      <div class="stack">
        <Card title="Facts">
          <Facts
            of={[
              ["Adapter", of.adapter],
              ["Provider's name", <Name text={of.provider_model} mono />],
              ["Address", of.api_base && <Name text={of.api_base} mono />],
              ["Secret", of.secret && <Name text={of.secret} mono />],
              ["Can do", able.join(", ") || "plain answers"],
              [
                "Fallbacks",
                of.fallbacks.length > 0 && (
                  <ol>
                    {of.fallbacks.map((name) => (
                      <li key={name}>
                        <Link to={urls.model(name)}>
                          <Name text={name} />
                        </Link>
                      </li>
                    ))}
                  </ol>
                ),
              ],
              ["Note", of.note && <Name text={of.note} />],
              ["Changed by", <Name text={of.author} />],
              ["Changed", <Ago time={of.updated_at} />],
            ]}
          />
        </Card>
      </div>
    </div>
  );
}

function Tests({ name, root }: { name: string; root: string }) {
  const data = useData<ModelTests>(route("models", name, "tests", root), {}, {
    every: 1,
    polled: (one) => !one.ended,
  });
  return (
    <Card title="Test">
      <Show of={data} rows={3}>
        {(found) => (
          <ul class="lines">
            {found.tests.map((one) => (
              <li key={one.test}>
                <State state={one.problem && one.state === "succeeded" ? "failed" : one.state} />
                <span>{one.test}</span>
                <span class={one.problem ? "grow tone-bad" : "grow"}>
                  <Name text={one.problem ?? one.answer} />
                </span>
                <span class="dim">{dollars(one.cost)}</span>
                {one.call_id && <More to={urls.call(one.call_id)}>the call</More>}
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Card>
  );
}

function askTest(of: Model, begun: (root: string) => void): void {
  ask({
    title: `Test the model ${of.name}?`,
    body: "It is asked up to three short questions: does it answer, use a tool, fit a schema. This costs money.",
    verb: "Test",
    run: async () => {
      const made = await send<ModelTests>("POST", action("test", "models", of.name));
      begun(made.root_id);
    },
  });
}

async function setState(of: Model, data: Data<Model>): Promise<void> {
  try {
    const verb = of.state === "enabled" ? "disable" : "enable";
    data.put(await send<Model>("POST", action(verb, "models", of.name)));
    toast({ text: `${of.name} is ${verb}d` });
  } catch (error) {
    toastError(error);
  }
}

function askRemove(of: Model): void {
  ask({
    title: `Delete the model ${of.name}?`,
    body: "Functions that ask it fail. What was asked of it stays in the list of calls.",
    verb: "Delete",
    typed: of.name,
    run: async () => {
      await send("DELETE", route("models", of.name));
      toast({ text: `${of.name} was deleted` });
      void go(urls.models());
    },
  });
}
