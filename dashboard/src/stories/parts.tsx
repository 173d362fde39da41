// The page of the parts: each in its states, with fixed data. It is an application of its own, which only
// `functory dev` serves, and asks the API for nothing.

import { effect } from "@preact/signals";
import { render } from "preact";
import { startClock } from "../clock.ts";
import { startKeys } from "../keys.ts";
import { Questions } from "../parts/dialog.tsx";
import { type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Mark, PageHead } from "../parts/small.tsx";
import { Announcer, Toasts } from "../parts/toast.tsx";
import { path, place, reload, startRouter } from "../router.ts";
import { applyTheme } from "../session.ts";
import { ownHref, urls } from "../urls.ts";
import { STORIES, WITHOUT } from "./stories.ts";

const FILTERS: readonly Filter[] = [
  { kind: "text", name: "state", label: "State" },
  {
    kind: "choice",
    name: "part",
    label: "part",
    several: true,
    choices: Object.keys(STORIES).map((value) => ({ value })),
  },
  { kind: "choice", name: "colours", label: "colours", choices: [{ value: "light" }, { value: "dark" }] },
  { kind: "switch", name: "narrow", label: "narrow" },
];

function PartsPage() {
  const { query } = place.value;
  const chosen = query.getAll("part");
  const wanted = query.get("state") ?? "";
  const parts = Object.entries(STORIES)
    .filter(([name]) => !chosen.length || chosen.includes(name))
    .map(([name, stories]) => [name, Object.entries(stories).filter(([state]) => state.includes(wanted))] as const)
    .filter(([, stories]) => stories.length);
  const narrow = query.has("narrow") ? "narrow" : "";
  return (
    <>
      <PageHead
        title="Parts"
        mark={<Mark name="pack" />}
        note="What the pages of the dashboard are made of, in all states."
      />
      <FilterBar filters={FILTERS} />
      <div class={`page-body stories ${query.get("colours") ?? ""} ${narrow}`}>
        {parts.map(([name, stories]) => (
          <section key={name} aria-label={name}>
            <h2>{name}</h2>
            {stories.map(([state, Story]) => (
              <section key={state} class="story" aria-label={`${name}: ${state}`}>
                <p class="dim">{state}</p>
                <div class="story-frame">
                  <Story />
                </div>
              </section>
            ))}
          </section>
        ))}
        <h2>Without a story</h2>
        <ul>
          {Object.entries(WITHOUT).map(([name, why]) => <li key={name}>{name}: {why}.</li>)}
        </ul>
      </div>
    </>
  );
}

applyTheme();
startRouter();
startKeys();
startClock();
document.title = "Parts · Functory";
const own = path.peek();
effect(() => {
  // Links lead to the pages of the dashboard, which are another application.
  if (path.value !== own) reload(ownHref(place.value.url) ?? urls.overview());
});
render(
  <div class="frame">
    <main id="page" tabIndex={-1}>
      <PartsPage />
    </main>
    <Questions />
    <Toasts />
    <Announcer />
  </div>,
  document.getElementById("app") as HTMLElement,
);
