// A form from a JSON Schema. It never changes what was typed: the server validates, and its faults stand at their
// fields.

import { useEffect, useState } from "preact/hooks";
import type { FieldFault } from "../api.ts";
import {
  fieldOf,
  initial,
  member,
  resolve,
  type Schema,
  titleOf,
  typedJson,
  typedNumber,
  withMember,
} from "../json_form.ts";
import { visible } from "../format.ts";
import { Button } from "./link.tsx";
import { jsonText } from "../json_numbers.ts";

export interface FormProps {
  readonly schema: Schema;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly faults?: readonly FieldFault[];
  /** The pointer of the whole form in the faults. */
  readonly pointer?: string;
  readonly label: string;
}

interface Place {
  readonly root: Schema;
  readonly faults: readonly FieldFault[];
}

export function Form({ schema, value, onChange, faults = [], pointer = "", label }: FormProps) {
  return (
    <div
      class="form"
      role="group"
      aria-label={label}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        (event.target as HTMLElement).blur();
      }}
    >
      <FaultsAt pointer={pointer} faults={faults} />
      <Value
        place={{ root: schema, faults }}
        schema={schema}
        value={value}
        pointer={pointer}
        label={label}
        hideLabel
        onChange={onChange}
      />
    </div>
  );
}

function FaultsAt({ pointer, faults, id }: { pointer: string; faults: readonly FieldFault[]; id?: string }) {
  const here = faults.filter((fault) => fault.pointer === pointer);
  if (!here.length) return null;
  return (
    <p class="field-fault" id={id} role="alert">
      {here.map((fault) => visible(fault.what)).join("; ")}
    </p>
  );
}

interface ValueProps {
  readonly place: Place;
  readonly schema: Schema;
  readonly value: unknown;
  readonly pointer: string;
  readonly label: string;
  readonly required?: boolean;
  readonly hideLabel?: boolean;
  /** It is one of a list: its number is its label, and what removes it is beside it. */
  readonly item?: boolean;
  /** It is the chosen one of several options. */
  readonly chosen?: boolean;
  readonly onChange: (value: unknown) => void;
}

function Value(props: ValueProps) {
  const { place, schema, value, pointer, label, required, hideLabel, onChange } = props;
  const field = fieldOf(schema, place.root);
  const { description } = resolve(schema, place.root);
  const id = `field${pointer.replaceAll(/[^A-Za-z0-9]/g, "-")}`;
  const faulty = place.faults.some((fault) => fault.pointer === pointer);
  const common = {
    id,
    "aria-invalid": faulty || undefined,
    "aria-describedby": faulty ? `${id}-fault` : description ? `${id}-about` : undefined,
    "aria-required": required || undefined,
  };
  const name = (
    <>
      {visible(label)}
      {required && (
        <span class="required" title="required">
          *
        </span>
      )}
    </>
  );

  if (field.kind === "object") {
    // What tells the options of a choice apart is said by the choice.
    const asked = field.fields.filter(
      (one) => !props.chosen || resolve(one.schema, place.root).const === undefined,
    );
    const members = asked.map((one) => (
      <Value
        key={one.name}
        place={place}
        schema={one.schema}
        value={(value as Record<string, unknown> | undefined)?.[one.name]}
        pointer={member(pointer, one.name)}
        label={resolve(one.schema, place.root).title ?? one.name}
        required={one.required}
        onChange={(changed) => onChange(withMember(value, one.name, changed))}
      />
    ));
    if (hideLabel) return <>{members.length ? members : <p class="dim">It takes no input.</p>}</>;
    return (
      <fieldset class="field-group">
        <legend>{name}</legend>
        {description && <p class="dim">{visible(description)}</p>}
        <FaultsAt pointer={pointer} faults={place.faults} id={`${id}-fault`} />
        {members}
      </fieldset>
    );
  }
  if (field.kind === "array") {
    const items = Array.isArray(value) ? (value as unknown[]) : [];
    return (
      <fieldset class="field-group">
        <legend>{name}</legend>
        {description && <p class="dim">{visible(description)}</p>}
        <FaultsAt pointer={pointer} faults={place.faults} id={`${id}-fault`} />
        {items.map((item, at) => (
          <div class="field-item" key={at}>
            <Value
              place={place}
              schema={field.item}
              value={item}
              pointer={member(pointer, at)}
              label={`${label} ${at + 1}`}
              item
              onChange={(changed) => onChange(items.map((one, index) => (index === at ? (changed ?? null) : one)))}
            />
            <Button
              kind="plain"
              label={`Remove ${label} ${at + 1}`}
              onClick={() => onChange(items.filter((_, index) => index !== at))}
            >
              ✕
            </Button>
          </div>
        ))}
        <Button
          kind="plain"
          label={`Add ${label}`}
          onClick={() => onChange([...items, initial(field.item, place.root) ?? null])}
        >
          Add
        </Button>
      </fieldset>
    );
  }
  if (field.kind === "boolean")
    return (
      <div class="field">
        <label class="field-check">
          <input
            {...common}
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(event.currentTarget.checked)}
          />
          <span>{name}</span>
        </label>
        <About id={id} text={description} />
        <FaultsAt pointer={pointer} faults={place.faults} id={`${id}-fault`} />
      </div>
    );

  return (
    <div class="field">
      <label for={id} class={hideLabel || props.item ? "off-screen" : undefined}>
        {name}
      </label>
      {field.kind === "const" && (
        <code id={id}>{typeof field.value === "string" ? field.value : jsonText(field.value)}</code>
      )}
      {field.kind === "enum" && (
        <select
          {...common}
          value={value === undefined ? "" : String(field.values.indexOf(value))}
          onChange={(event) => {
            const at = event.currentTarget.value;
            onChange(at === "" ? undefined : field.values[Number(at)]);
          }}
        >
          <option value="">{required ? "choose" : "not given"}</option>
          {field.values.map((one, at) => (
            <option key={at} value={String(at)}>
              {typeof one === "string" ? one : jsonText(one)}
            </option>
          ))}
        </select>
      )}
      {field.kind === "number" && (
        <Typed common={common} value={value} onChange={onChange} read={typedNumber} mode="decimal" />
      )}
      {field.kind === "text" && (
        <TextField
          common={common}
          value={value}
          onChange={onChange}
          format={field.format}
          clears={!props.item && !required}
        />
      )}
      {field.kind === "json" && <JsonField common={common} value={value} onChange={onChange} />}
      {field.kind === "oneOf" && <OneOf {...props} options={field.options} id={id} />}
      <About id={id} text={description} />
      <FaultsAt pointer={pointer} faults={place.faults} id={`${id}-fault`} />
    </div>
  );
}

function About({ id, text }: { id: string; text: string | undefined }) {
  return text ? (
    <p class="dim" id={`${id}-about`}>
      {visible(text)}
    </p>
  ) : null;
}

type Common = Readonly<Record<string, string | boolean | undefined>>;

function Typed({
  common,
  value,
  onChange,
  read,
  mode,
}: {
  common: Common;
  value: unknown;
  onChange: (value: unknown) => void;
  read: (text: string) => unknown;
  mode: "decimal";
}) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  useEffect(() => {
    if (read(text) !== value) setText(value === undefined ? "" : String(value));
  }, [value]);
  return (
    <input
      {...common}
      inputMode={mode}
      autocomplete="off"
      value={text}
      onInput={(event) => {
        setText(event.currentTarget.value);
        onChange(read(event.currentTarget.value));
      }}
    />
  );
}

const HINTS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-31T12:00:00Z",
  date: "2026-01-31",
  email: "name@example.com",
  uri: "https://example.com/",
};

function TextField({
  common,
  value,
  onChange,
  format,
  clears,
}: {
  common: Common;
  value: unknown;
  onChange: (value: unknown) => void;
  format: string | null;
  clears: boolean;
}) {
  const text = typeof value === "string" ? value : value === undefined ? "" : jsonText(value);
  const change = (event: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) =>
    onChange(event.currentTarget.value);
  // As it was when the field came: another element during typing would lose the focus and the text.
  const [isLong] = useState(text.includes("\n") || text.length > 80);
  if (isLong)
    return <textarea {...common} rows={4} spellcheck={false} value={text} onInput={change} />;
  return (
    <span class="field-text">
      <input
        {...common}
        type="text"
        spellcheck={false}
        autocomplete="off"
        placeholder={format ? (HINTS[format] ?? format) : undefined}
        value={text}
        onInput={change}
      />
      {clears && value !== undefined && (
        <button type="button" class="link" onClick={() => onChange(undefined)} title="Do not give this field">
          clear
        </button>
      )}
    </span>
  );
}

function JsonField({
  common,
  value,
  onChange,
}: {
  common: Common;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const shown = value === undefined ? "" : jsonText(value, 2);
  const [text, setText] = useState(shown);
  const read = typedJson(text);
  useEffect(() => {
    // The text of the person stays while it means the value; text that is no JSON is sent as a string.
    if (jsonText(read.problem ? text : read.value) !== jsonText(value)) setText(shown);
  }, [shown]);
  return (
    <>
      <textarea
        {...common}
        rows={Math.min(12, Math.max(2, text.split("\n").length))}
        spellcheck={false}
        placeholder="JSON"
        value={text}
        onInput={(event) => {
          const typed = event.currentTarget.value;
          setText(typed);
          const { value: made, problem } = typedJson(typed);
          onChange(problem ? typed : made);
        }}
      />
      {read.problem && <p class="field-note">Not JSON: it is sent as a text.</p>}
    </>
  );
}

function OneOf(props: ValueProps & { options: readonly { title: string; schema: Schema }[]; id: string }) {
  const { options, place, value, pointer, label, onChange, id } = props;
  const fits = options.findIndex((option) => couldBe(value, option.schema, place.root));
  const [chosen, setChosen] = useState(Math.max(0, fits));
  const option = options[chosen];
  return (
    <>
      <select
        id={id}
        value={String(chosen)}
        onChange={(event) => {
          const at = Number(event.currentTarget.value);
          setChosen(at);
          const wanted = resolve(options[at]?.schema, place.root);
          onChange(wanted.type === "null" ? null : initial(options[at]?.schema, place.root));
        }}
      >
        {options.map((one, at) => (
          <option key={at} value={String(at)}>
            {one.title}
          </option>
        ))}
      </select>
      {option && resolve(option.schema, place.root).type !== "null" && (
        <Value
          key={chosen}
          place={{ ...place, faults: place.faults.filter((fault) => fault.pointer !== pointer) }}
          schema={option.schema}
          value={value}
          pointer={pointer}
          label={titleOf(option.schema, place.root) || label}
          chosen
          onChange={onChange}
        />
      )}
    </>
  );
}

function couldBe(value: unknown, schema: Schema, root: Schema): boolean {
  const { type, properties } = resolve(schema, root);
  for (const [name, field] of Object.entries(properties ?? {})) {
    const wanted = resolve(field, root).const;
    // A member that can be one thing only tells the options apart.
    if (wanted !== undefined && (value as Record<string, unknown> | null | undefined)?.[name] !== wanted)
      return false;
  }
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return [type].flat().some((one) => one === kind || (one === "integer" && kind === "number"));
}
