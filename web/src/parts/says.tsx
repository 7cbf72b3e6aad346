// Sentences and causes from the service.
import { wordsOf } from "../format/causes";
import { human } from "../format/sentences";
import { Tag } from "./states";

/** A sentence, with names in backticks as code. */
export function Says({ text }: { text: string | undefined }) {
  const parts = human(text ?? "").split("`");
  return <>{parts.map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</>;
}

/** A cause in words, with its name in documents as a title. */
export const Cause = ({ of }: { of: string }) => <Tag of={wordsOf(of)} title={of} />;
