// Keeps small preferences of this browser. Where storage is switched off, they last as long as the page.

const memory = new Map<string, string>();

export function stored(name: string): string | null {
  try {
    return window.localStorage.getItem(`functory.${name}`);
  } catch {
    return memory.get(name) ?? null;
  }
}

export function store(name: string, value: string | null): void {
  try {
    if (value === null) window.localStorage.removeItem(`functory.${name}`);
    else window.localStorage.setItem(`functory.${name}`, value);
  } catch {
    if (value === null) memory.delete(name);
    else memory.set(name, value);
  }
}
