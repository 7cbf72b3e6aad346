// Colours of the page: those of the system, or light or dark ones that the browser keeps.
import { computed, effect, signal } from "@preact/signals";
import { matches } from "./screen";

const KEY = "theme";
const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const kept = globalThis.localStorage?.getItem(KEY);
const theme = signal<Theme>(THEMES.find((one) => one === kept) ?? "system");
const systemIsDark = matches("(prefers-color-scheme: dark)");

/** Whether the page is dark. Canvas content has to be redrawn on a change. */
export const dark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

/** Sets the colours of the document, now and on each change. */
export function colourPage(): void {
  effect(() => {
    document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  });
}

function choose(wanted: Theme): void {
  theme.value = wanted;
  if (wanted === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, wanted);
}

export function ThemeSwitch() {
  return (
    <label>
      Colours{" "}
      <select id="theme" value={theme.value} onChange={(event) => choose(event.currentTarget.value as Theme)}>
        <option value="system">as the system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}
