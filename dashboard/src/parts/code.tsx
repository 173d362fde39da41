// The editor of sources, patterns and conditions. It is loaded when it is first shown; until then the text is there.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Word } from "../completions.ts";
import type { CodeView, Diagnostic, Language } from "../editor/editor.ts";
import { visible } from "../format.ts";

export type { Diagnostic } from "../editor/editor.ts";

export interface CodeProps {
  readonly value: string;
  readonly language: Language;
  readonly label: string;
  readonly onChange?: (text: string) => void;
  readonly diagnostics?: readonly Diagnostic[];
  readonly words?: readonly Word[];
  readonly hint?: string;
  /** Height: `tall` fills a page, `small` a few lines. */
  readonly size?: "tall" | "middle" | "small";
  /** Goes to this line when it changes. */
  readonly line?: { readonly line: number } | null;
  readonly autoFocus?: boolean;
}

const NO_DIAGNOSTICS: readonly Diagnostic[] = [];

export function Code(props: CodeProps) {
  const {
    value,
    language,
    label,
    onChange,
    diagnostics = NO_DIAGNOSTICS,
    hint = "",
    size = "middle",
    line,
  } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<CodeView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  // Texts that the editor has sent up and that have not come down again: they must not be put in once more, because
  // the person has typed on meanwhile.
  const sent = useRef<string[]>([]);
  const [failed, setFailed] = useState(false);
  const [ready, setReady] = useState(false);
  const readOnly = !onChange;

  useEffect(() => {
    let gone = false;
    import("../editor/editor.ts").then(
      ({ mountCode }) => {
        if (gone || !host.current) return;
        view.current = mountCode(host.current, {
          text: latest.current.value,
          language,
          label,
          readOnly,
          hint,
          words: () => latest.current.words ?? [],
          onChange: (text) => {
            sent.current.push(text);
            latest.current.onChange?.(text);
          },
        });
        view.current.setDiagnostics(latest.current.diagnostics ?? NO_DIAGNOSTICS);
        if (latest.current.line) view.current.goTo(latest.current.line.line);
        else if (latest.current.autoFocus) view.current.focus();
        setReady(true);
      },
      () => setFailed(true),
    );
    return () => {
      gone = true;
      view.current?.destroy();
      view.current = null;
    };
  }, [language, label]);
  useEffect(() => {
    const at = sent.current.indexOf(value);
    if (at >= 0) sent.current.splice(0, at + 1);
    else {
      sent.current = [];
      view.current?.setText(value);
    }
  }, [value]);
  useEffect(() => view.current?.setDiagnostics(diagnostics), [diagnostics]);
  useEffect(() => view.current?.setReadOnly(readOnly), [readOnly]);
  useEffect(() => {
    if (line) view.current?.goTo(line.line);
  }, [line]);

  if (failed)
    return (
      <div class={`code code-${size}`}>
        <p class="notice">The editor could not be loaded. This field works without it.</p>
        <textarea
          aria-label={label}
          rows={size === "small" ? 3 : 16}
          spellcheck={false}
          readOnly={readOnly}
          value={value}
          onInput={(event) => onChange?.(event.currentTarget.value)}
        />
      </div>
    );
  return (
    <div
      class={`code code-${size}`}
      // Esc belongs to the editor: Esc, then Tab leaves it. A dialog around it stays open.
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        event.preventDefault();
      }}
    >
      {!ready && (
        // A line break at the end is a line of the editor, and none of this element: one more makes both equally high.
        <pre class={`code-waiting ${language}`} aria-hidden="true">
          {`${visible(value || hint)}\n`}
        </pre>
      )}
      <div ref={host} class={ready ? "code-host" : "code-host waiting"} />
    </div>
  );
}
