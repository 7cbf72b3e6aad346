// Copying texts to the clipboard.
import { useEffect, useState } from "preact/hooks";

/** Duration of the mark after a copy, in milliseconds. */
const SHOWN = 1500;

/** Button that copies a text: the whole of a name, or a command. */
export function Copy({ text, children }: { text: string; children?: preact.ComponentChildren }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button type="button" class="copy" aria-label={`Copy ${text}`} title={isCopied ? "Copied" : "Copy"} onClick={async () => setCopied(await copy(text))}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={isCopied ? "M3 8.5 6.5 12 13 4.5" : "M5.5 5.5V2.5h8v8h-3M2.5 5.5h8v8h-8z"} />
      </svg>
      {children}
    </button>
  );
}

/** Copies a text. Returns whether the browser allowed it. */
async function copy(text: string): Promise<boolean> {
  // Without TLS, only pages of this machine have a clipboard.
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const field = document.createElement("textarea");
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}
