// The list of keys behind `?`, drawn from the registry.

import { signal } from "@preact/signals";
import { scopes } from "../keys.ts";
import { Dialog } from "../parts/dialog.tsx";

export const helpOpen = signal(false);

const SYMBOLS: Readonly<Record<string, string>> = {
  ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", PageDown: "PgDn", PageUp: "PgUp",
};

function keysText(keys: string): string {
  return keys.split(" ").map((key) => key.split("+").map((part) => SYMBOLS[part] ?? part).join(" ")).join(" then ");
}

export function Help() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title="Keys" wide onClose={() => (helpOpen.value = false)}>
      <div class="help" tabIndex={0} role="group" aria-label="Keys">
        {[...scopes.value].reverse().map(
          ({ id, scope }) =>
            scope.bindings.length > 0 && (
              <section key={id}>
                <h3>{scope.title}</h3>
                <dl>
                  {scope.bindings
                    .filter((one) => one.when !== false)
                    .map((one) => (
                      <div key={one.label}>
                        <dt>{one.label}</dt>
                        <dd>
                          {[one.keys].flat().map((keys) => (
                            <kbd key={keys}>{keysText(keys)}</kbd>
                          ))}
                        </dd>
                      </div>
                    ))}
                </dl>
              </section>
            ),
        )}
      </div>
    </Dialog>
  );
}
