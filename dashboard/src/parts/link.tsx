// Links and buttons.

import type { ComponentChildren } from "preact";
import type { Problem } from "../api.ts";
import type { Right } from "../rows.ts";
import { can, me, roleFor } from "../session.ts";
import { online } from "../api.ts";
import type { Href } from "../urls.ts";

interface Rest {
  readonly class?: string;
  readonly title?: string | undefined;
  readonly tabIndex?: number;
  readonly onClick?: () => void;
  readonly "aria-current"?: "page" | undefined;
  readonly "aria-label"?: string;
}

/** A link within the dashboard. The address comes from `urls`. */
export function Link({ to, children, ...rest }: { to: Href; children: ComponentChildren } & Rest) {
  return (
    <a href={to} {...rest}>
      {children}
    </a>
  );
}

/** A link in the form of a button. */
export function LinkButton({ to, children, kind, keys }: {
  to: Href;
  children: ComponentChildren;
  kind?: "primary" | "plain";
  keys?: string;
}) {
  return (
    <Link to={to} class={`button ${kind ?? ""}`}>
      {children}
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </Link>
  );
}

export interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: (event: MouseEvent) => void;
  readonly kind?: "primary" | "danger" | "plain";
  /** The key that does the same, shown in the button. */
  readonly keys?: string;
  /** The right that it needs: without it the button is disabled and says which role has it. */
  readonly needs?: Right;
  readonly disabled?: boolean;
  /** Why it is disabled. */
  readonly why?: string;
  readonly busy?: boolean;
  readonly type?: "button" | "submit";
  readonly title?: string;
  readonly label?: string;
}

/** A button. It is disabled, with the reason, without the right or without a connection. */
export function Button({ children, onClick, kind, keys, needs, disabled, why, busy, type, title, label }: ButtonProps) {
  const lacks = needs && me.value && !can(needs);
  const reason = lacks
    ? `This needs ${roleFor(needs)}.`
    : needs && !online.value
      ? "The server cannot be reached."
      : disabled
        ? why
        : undefined;
  const off = Boolean(disabled || busy || reason);
  return (
    <button
      type={type ?? "button"}
      class={`button ${kind ?? ""}`}
      aria-disabled={off || undefined}
      aria-busy={busy || undefined}
      aria-label={label}
      title={reason ?? title}
      onClick={(event) => {
        if (off) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {children}
      {keys && <kbd aria-hidden="true">{keys}</kbd>}
    </button>
  );
}

/** The fault of a field, for the text below it. */
export function faultOf(problem: Problem | null, pointer: string): string | undefined {
  return problem?.faults.find((fault) => fault.pointer === pointer)?.what;
}

/** A link that downloads the answer of a route; the address comes from `downloadPath`. */
export function Download({ to, children }: { to: string; children: ComponentChildren }) {
  return (
    <a href={to} class="more" download>
      {children}
    </a>
  );
}

/** A link in the form of a button that opens a route in a tab of its own; the address comes from `downloadPath`. */
export function TabLink({ to, children }: { to: string; children: ComponentChildren }) {
  return (
    <a href={to} class="button primary" target="_blank" rel="noopener">
      {children}
    </a>
  );
}

/** A link to another host. Only https, without a referrer, in a tab of its own. */
export function OutsideLink({ to, children }: { to: string; children: ComponentChildren }) {
  if (!to.startsWith("https://")) return null;
  return (
    <a href={to} class="more" target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}
