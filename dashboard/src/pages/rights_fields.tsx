// Fields for a role, for rights beyond it, and for the labels that limit what one sees.

import { useState } from "preact/hooks";

export const ROLES = ["viewer", "operator", "author", "admin"] as const;
export type Role = (typeof ROLES)[number];

const MEANS: Readonly<Record<Role, string>> = {
  viewer: "looks, without payloads",
  operator: "and retries, cancels, pauses, halts",
  author: "and saves functions, triggers, sources and secrets",
  admin: "and looks after people, audit and settings",
};

const EXTRA = [
  { right: "payload:read", means: "reads payloads, logs and errors" },
  { right: "approve", means: "approves grants" },
] as const;

export interface Rights {
  readonly role: Role;
  readonly rights: readonly string[];
  /** The labels as typed; null sees everything. */
  readonly labels: string | null;
}

/** The typed labels as a list for the API; null is everything. */
export function labelsOf(rights: Rights): readonly string[] | null {
  if (rights.labels === null) return null;
  return rights.labels
    .split(",")
    .map((label) => label.trim())
    .filter(Boolean);
}

export function RightFields({ value, onChange }: { value: Rights; onChange: (value: Rights) => void }) {
  const [typed, setTyped] = useState(value.labels ?? "");
  return (
    <>
      <fieldset class="options">
        <legend>Role</legend>
        {ROLES.map((role) => (
          <label key={role} class="option">
            <input
              type="radio"
              name="role"
              checked={value.role === role}
              onChange={() => onChange({ ...value, role })}
            />
            <span>
              {role} <span class="dim">{MEANS[role]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <fieldset class="options">
        <legend>Rights beyond it</legend>
        {EXTRA.map(({ right, means }) => (
          <label key={right} class="option">
            <input
              type="checkbox"
              checked={value.rights.includes(right)}
              onChange={(event) =>
                onChange({
                  ...value,
                  rights: event.currentTarget.checked
                    ? [...value.rights, right]
                    : value.rights.filter((one) => one !== right),
                })
              }
            />
            <span>
              {right} <span class="dim">{means}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <fieldset class="options">
        <legend>Sees</legend>
        <label class="option">
          <input
            type="radio"
            name="sees"
            checked={value.labels === null}
            onChange={() => onChange({ ...value, labels: null })}
          />
          <span>everything</span>
        </label>
        <label class="option">
          <input
            type="radio"
            name="sees"
            checked={value.labels !== null}
            onChange={() => onChange({ ...value, labels: typed })}
          />
          <span>only functions and triggers with one of these labels</span>
        </label>
        {value.labels !== null && (
          <input
            value={typed}
            aria-label="Labels, separated by commas"
            placeholder="shop, billing"
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              onChange({ ...value, labels: event.currentTarget.value });
            }}
          />
        )}
      </fieldset>
    </>
  );
}
