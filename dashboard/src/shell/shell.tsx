// The frame around every page, and the keys that work everywhere.

import { Component, type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { loggedOut } from "../api.ts";
import { arriving, useArriving } from "../arriving.ts";
import { forgetData } from "../data.ts";
import { nextTimeMode, timeMode } from "../format.ts";
import { type Binding, useKeys } from "../keys.ts";
import { forgetLists } from "../lists.ts";
import { Questions } from "../parts/dialog.tsx";
import { loadChunks } from "../parts/later.tsx";
import { PasswordAgain } from "../parts/password_again.tsx";
import { Palette, palette } from "../parts/palette.tsx";
import { copy, Empty, Fault, More, PageHead } from "../parts/small.tsx";
import { Announcer, announce, Toasts } from "../parts/toast.tsx";
import { back, go, path, place, step, walk } from "../router.ts";
import { routeOf } from "../routes.ts";
import { can, me } from "../session.ts";
import { toggleFollowing } from "../stream.ts";
import { urls } from "../urls.ts";
import { Help, helpOpen } from "./help.tsx";
import { NAVIGATION } from "./navigation.ts";
import { navOpen, Sidebar } from "./sidebar.tsx";
import { Banners, TopBar } from "./top_bar.tsx";

export function Shell() {
  const found = routeOf(path.value);
  const title = found ? found.route.title(found.params) : "Not found";
  useEffect(() => {
    const name = me.value?.installation.name;
    document.title = `${title} · ${name && name !== "functory" ? `${name} · ` : ""}Functory`;
    announce(title);
  }, [title]);
  useEffect(() => {
    navOpen.value = false;
    // A new page begins at its heading, for readers and for the keys.
    document.getElementById("page")?.focus({ preventScroll: true });
  }, [path.value]);
  useEffect(() => {
    if (!loggedOut.value) return;
    // Nothing of what was shown stays in memory, also not behind the back button.
    forgetData();
    forgetLists();
    // The login page itself is no place to come back to.
    if (place.value.path !== urls.login()) go(urls.login({ next: place.value.url }), true);
  }, [loggedOut.value, path.value]);
  useEffect(() => {
    document.documentElement.dataset["times"] = timeMode.value;
  }, [timeMode.value]);
  useEverywhere();
  useArriving(path.value, loadChunks);
  if (found?.route.bare) return <found.route.page key={path.value} {...found.params} />;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("page")?.focus()}>
        Skip to the page
      </button>
      <TopBar />
      <div class="frame">
        <Sidebar current={found?.route.nav} />
        <main id="page" tabIndex={-1} class={arriving}>
          <Banners />
          <Boundary key={path.value}>
            {found ? <found.route.page {...found.params} /> : <NotFound />}
          </Boundary>
        </main>
      </div>
      <Palette />
      <Help />
      <Questions />
      <PasswordAgain />
      <Toasts />
      <Announcer />
    </>
  );
}

function useEverywhere(): void {
  const pages: Binding[] = NAVIGATION.flatMap((group) =>
    group.entries
      .filter((entry) => entry.key)
      .map((entry) => ({
        keys: `g ${entry.key}`,
        label: entry.title,
        run: () => go(entry.to()),
        when: can(entry.needs) && routeOf(entry.to()) !== null,
      })),
  );
  useKeys(
    "Everywhere",
    [
      { keys: "Ctrl+K", label: "Palette", run: () => (palette.value = palette.value ? null : "everything") },
      { keys: "?", label: "This list", run: () => (helpOpen.value = !helpOpen.value) },
      { keys: "Escape", label: "Up", run: () => back(), when: path.value !== "/" },
      { keys: "[", label: "Previous of the list", run: () => void step(-1), when: walk.value !== null },
      { keys: "]", label: "Next of the list", run: () => void step(1), when: walk.value !== null },
      { keys: "y", label: "Copy the link", run: () => void copy(window.location.origin + place.value.url, "the link") },
      {
        keys: "Y",
        label: "Copy the id",
        run: () => void copy(decodeURIComponent(path.value.split("/")[2] ?? ""), "the id"),
        when: path.value.split("/").length > 2,
      },
      { keys: "t", label: "Times: relative, local, UTC", run: () => announce(`Times: ${nextTimeMode()}`) },
      {
        keys: "l",
        label: "Live updates on or off",
        run: () => announce(toggleFollowing() ? "Live updates are on" : "Live updates are off"),
      },
      { keys: ".", label: "Actions", run: () => (palette.value = "actions") },
    ],
    0,
  );
  useKeys("Pages", pages, 0);
}

function NotFound() {
  return (
    <>
      <PageHead title="Not found" />
      <Empty title="There is no such page.">
        <More to={urls.find(path.value.split("/").filter(Boolean).at(-1) ?? "")}>Search for it</More>
      </Empty>
    </>
  );
}

/** Shows the error of a page in its place, so that the frame goes on working. */
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error });
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    const again = () => {
      // What is kept may be what it cannot draw.
      forgetData();
      forgetLists();
      this.setState({ error: null });
    };
    return (
      <>
        <PageHead title="This page failed" />
        <Fault error={this.state.error} retry={again} />
      </>
    );
  }
}
