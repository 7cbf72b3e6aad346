/** The logo: the constellation. */
export function Logo() {
  return (
    <svg viewBox="0 0 46 46" aria-hidden="true" class="logo">
      <path d="M5 12 15 20 25 17 38 8M15 20 19 33 33 36 25 17M33 36 42 28" />
      <g>
        <circle cx="5" cy="12" r="2" />
        <circle cx="15" cy="20" r="2.6" />
        <circle cx="25" cy="17" r="2.2" />
        <circle cx="38" cy="8" r="3.2" />
        <circle cx="19" cy="33" r="2.2" />
        <circle cx="33" cy="36" r="2.8" />
        <circle cx="42" cy="28" r="1.8" />
      </g>
    </svg>
  );
}
