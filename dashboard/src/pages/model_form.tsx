// The form of a model: to add one, and to change one. Only fields that were changed are sent.

import { useState } from "preact/hooks";
import type { Model } from "../api.gen.ts";
import { asProblem, type Problem, route, send } from "../api.ts";
import type { Data } from "../data.ts";
import type { Schema } from "../json_form.ts";
import { Form } from "../parts/form.tsx";
import { Button } from "../parts/link.tsx";
import { Card, Fault, Mark, PageHead } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { go } from "../router.ts";
import { urls } from "../urls.ts";
import { jsonText } from "../json_numbers.ts";

const text = (title: string, description?: string): Schema => ({
  type: "string",
  title,
  ...(description ? { description } : {}),
});
const number = (title: string, description?: string): Schema => ({
  type: "number",
  title,
  ...(description ? { description } : {}),
});
const FORMS = ["native", "json", "none"];

const FIELDS: Readonly<Record<string, Schema>> = {
  adapter: {
    title: "Adapter",
    enum: ["openai", "litellm", "script"],
    description: "openai is for every server with its interface; script answers from a file.",
  },
  provider_model: text("Provider's name", "The name that the provider gives the model."),
  api_base: text("Address", "The address that chat/completions is added to, such as https://api.openai.com/v1."),
  secret: text("Secret", "The name of the secret with its key. A local model may need none."),
  price_in: number("Price of a request", "US dollars for a million tokens; a local model costs 0."),
  price_out: number("Price of an answer", "US dollars for a million tokens."),
  price_cached: number("Price of a request in the provider's cache", "US dollars for a million tokens."),
  context: number("Context", "Tokens of request and answer together."),
  max_output: number("Longest answer", "Tokens."),
  slots: number("Calls at a time"),
  calls_per_minute: number("Calls a minute"),
  tokens_per_minute: number("Tokens a minute"),
  timeout: number("Timeout", "Seconds."),
  fallbacks: {
    type: "array",
    title: "Fallback",
    items: { type: "string" },
    description: "Models that are asked, in this order, when this one gives no answer.",
  },
  capabilities: {
    type: "object",
    title: "What it can do",
    properties: {
      tools: { title: "Tools", enum: FORMS, description: "native is the provider's own form, json is ours." },
      schema: { title: "Answers by a schema", enum: FORMS },
      stream: { type: "boolean", title: "It streams its answers" },
      vision: { type: "boolean", title: "It sees pictures" },
      dimensions: number("Length of embeddings", "Only for a model that makes embeddings."),
      length: { title: "Field for the longest answer", enum: ["max_tokens", "max_completion_tokens"] },
    },
  },
  note: text("Note"),
};
const REQUIRED = ["adapter", "provider_model", "price_in", "price_out"];
const EDIT: Schema = { type: "object", properties: FIELDS, required: REQUIRED };
const ADD: Schema = {
  type: "object",
  properties: { name: text("Name", "Functions ask the model by this name."), ...FIELDS },
  required: ["name", ...REQUIRED],
};

type Values = Readonly<Record<string, unknown>>;

const without = (of: Values): Values => Object.fromEntries(Object.entries(of).filter(([, value]) => value !== null));

/** The values of the form of a model: fields without a value are left out. */
function valuesOf(of: Model): Values {
  const row = of as unknown as Values;
  const fields = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, row[name]]));
  return without({ ...fields, capabilities: without(of.capabilities as unknown as Values) });
}

/** What was changed; a field that was emptied is null. */
function changesOf(before: Values, after: Values): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const name of Object.keys(FIELDS)) {
    const [was, is] = [before[name], after[name]];
    if (jsonText(was) === jsonText(is)) continue;
    changes[name] =
      name === "capabilities" ? partsOf((was ?? {}) as Values, (is ?? {}) as Values) : (is ?? null);
  }
  return changes;
}

function partsOf(before: Values, after: Values): Record<string, unknown> {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((name) => before[name] !== after[name]);
  return Object.fromEntries(changed.map((name) => [name, after[name] ?? null]));
}

export function NewModelPage() {
  return (
    <>
      <PageHead title="New model" mark={<Mark name="model" />} />
      <div class="page-body">
        <ModelForm before={null} done={(made) => void go(urls.model(made.name))} />
      </div>
    </>
  );
}

export function EditModel({ of, data, close }: { of: Model; data: Data<Model>; close: () => void }) {
  return (
    <ModelForm
      before={of}
      done={(made) => {
        data.put(made);
        close();
      }}
    />
  );
}

function ModelForm({ before, done }: { before: Model | null; done: (made: Model) => void }) {
  const [known] = useState<Values>(() => (before ? valuesOf(before) : {}));
  const [values, setValues] = useState<unknown>(before ? known : { adapter: "openai" });
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const save = async () => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      const given = values as Values;
      const made = before
        ? await send<Model>("PATCH", route("models", before.name), changesOf(known, given))
        : await send<Model>("POST", "/models", given);
      toast({ text: `The model ${made.name} was saved` });
      done(made);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <form
      class="stack narrow-form"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <Card title="Model">
        <Form
          schema={before ? EDIT : ADD}
          value={values}
          onChange={setValues}
          faults={problem?.faults ?? []}
          label="Model"
        />
      </Card>
      {problem && <Fault error={problem} />}
      <div class="row-buttons">
        <Button needs="admin" kind="primary" type="submit" busy={busy}>
          Save
        </Button>
      </div>
    </form>
  );
}
