// The navigation at the left; behind ☰ on a phone.

import { signal } from "@preact/signals";
import { Link } from "../parts/link.tsx";
import { Mark } from "../parts/small.tsx";
import { can } from "../session.ts";
import { routeOf } from "../routes.ts";
import { NAVIGATION } from "./navigation.ts";

export const navOpen = signal(false);

export function Sidebar({ current }: { current: string | undefined }) {
  return (
    <nav class={navOpen.value ? "sidebar open" : "sidebar"} aria-label="Pages">
      {NAVIGATION.map((group) => {
        const entries = group.entries.filter((entry) => can(entry.needs) && routeOf(entry.to()));
        return (
          entries.length > 0 && (
            <div key={group.title} class="nav-group">
              <h2>{group.title}</h2>
              <ul>
                {entries.map((entry) => (
                  <li key={entry.id}>
                    <Link
                      to={entry.to()}
                      aria-current={entry.id === current ? "page" : undefined}
                      title={entry.key ? `g ${entry.key}` : undefined}
                      onClick={() => (navOpen.value = false)}
                    >
                      <Mark name={entry.mark} />
                      {entry.title}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          )
        );
      })}
    </nav>
  );
}
