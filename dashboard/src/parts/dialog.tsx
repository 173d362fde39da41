// Dialogs: the browser's own <dialog>, with the numbers of what will change.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "../api.ts";
import { Button } from "./link.tsx";
import { Fault } from "./small.tsx";

/** A dialog while it is drawn. Esc and a click beside it close it. */
export function Dialog({ title, onClose, children, wide }: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    if (!box.current?.open) box.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={box}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === box.current) onClose();
      }}
    >
      <div class="dialog-body">
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  readonly title: string;
  /** What will change, in numbers. */
  readonly body?: ComponentChildren;
  /** The word on the button: the verb. */
  readonly verb: string;
  /** A dangerous one wants this text typed; Enter never does it. */
  readonly typed?: string;
  readonly danger?: boolean;
  /** Asks for a text, for example a reason. */
  readonly ask?: { readonly label: string; readonly required?: boolean; readonly placeholder?: string };
  /** Does it. The dialog stays open while it runs, and shows its error. */
  readonly run: (text: string) => Promise<void> | void;
}

const question = signal<Question | null>(null);

/** Asks before something happens. */
export function ask(wanted: Question): void {
  question.value = wanted;
}

export function Questions() {
  const current = question.value;
  return current ? <Ask key={current.title} of={current} close={() => (question.value = null)} /> : null;
}

function Ask({ of, close }: { of: Question; close: () => void }) {
  const [typed, setTyped] = useState("");
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Problem | null>(null);
  const ready = (!of.typed || typed === of.typed) && (!of.ask?.required || text.trim() !== "");
  const run = async () => {
    if (!ready || busy) return;
    setBusy(true);
    setError(null);
    try {
      await of.run(text.trim());
      close();
    } catch (fault) {
      setError(asProblem(fault));
      setBusy(false);
    }
  };
  return (
    <Dialog title={of.title} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!of.danger && !of.typed) void run();
        }}
      >
        {of.body && <div class="dialog-text">{of.body}</div>}
        {of.ask && (
          <label class="field">
            <span>{of.ask.label}</span>
            <input
              value={text}
              placeholder={of.ask.placeholder}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
        )}
        {of.typed && (
          <label class="field">
            <span>
              Type <code>{of.typed}</code>
            </span>
            <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        {error && <Fault error={error} />}
        <div class="dialog-actions">
          {/* Beside a button that cancels an execution, "Cancel" would have two meanings. */}
          <Button onClick={close}>{of.verb.startsWith("Cancel") ? "Back" : "Cancel"}</Button>
          <Button
            kind={of.danger || of.typed ? "danger" : "primary"}
            type={of.danger || of.typed ? "button" : "submit"}
            disabled={!ready}
            busy={busy}
            {...(of.danger || of.typed ? { onClick: () => void run() } : {})}
          >
            {of.verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
