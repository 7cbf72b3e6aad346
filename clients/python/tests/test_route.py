"""The order in which addresses are tried."""

from __future__ import annotations

import random
import unittest
from typing import List

from monoceros.route import End, Route

FAILED = End()
LOST = End(lasted=9.0, is_answered=True)


def route(*configured: str, members: str = "") -> Route:
    made = Route(configured, shuffle=lambda _: None)
    if members:
        made.registered(members)
    return made


def after(made: Route, *ends: End) -> List[str]:
    """Returns the next addresses, with a star after a pause."""
    return [("" if made.after(end) else "*") + made.present for end in ends]


def to(owner: str, is_suspicion: bool = False) -> End:
    return End(is_answered=True, owner=owner, is_suspicion=is_suspicion)


class Order(unittest.TestCase):
    def test_a_single_address_follows_pauses(self) -> None:
        made = route("a")
        self.assertEqual(made.present, "a")
        self.assertFalse(made.has_others)
        stays = End(lasted=9.0, stays=True)
        self.assertEqual(after(made, FAILED, stays, LOST, FAILED, to("a")), ["*a"] * 5)

    def test_configured_addresses_are_tried_without_a_pause(self) -> None:
        made = route("a", "b", " a ", "c")
        self.assertEqual(after(made, *[FAILED] * 5), ["b", "c", "*a", "b", "c"])

    def test_other_members_come_first_and_the_lost_owner_last(self) -> None:
        made = route("a", "service", members="a,b,c")
        self.assertEqual(after(made, LOST, *[FAILED] * 5), ["b", "c", "service", "a", "*b", "c"])
        self.assertEqual(made.rounds, 1)
        # Reached by another name, the owner is known all the same.
        made = route("service", members="a,b,c")
        self.assertEqual(after(made, LOST, *[FAILED] * 4), ["b", "c", "a", "service", "*b"])

    def test_a_named_owner_comes_first_and_once_in_a_row(self) -> None:
        made = route("a", members="a,b,c")
        self.assertEqual(after(made, End(lasted=9.0, is_answered=True, owner="c")), ["c"])
        # Members name each other.
        self.assertEqual(after(made, to("a"), to("c"), to("b"), to("a")), ["b", "c", "a", "*b"])

    def test_a_false_suspicion_leads_back_to_its_member_once(self) -> None:
        made = route("a", members="a,b")
        self.assertEqual(after(made, LOST), ["b"])
        self.assertEqual(after(made, to("a", is_suspicion=True), FAILED, to("a"), FAILED), ["a", "b", "a", "*b"])

    def test_members_forward_after_a_redirect_to_an_address_that_does_not_answer(self) -> None:
        made = route("service")
        self.assertTrue(made.takes_redirects)
        self.assertEqual(after(made, to("10.0.0.7:1")), ["10.0.0.7:1"])
        self.assertFalse(made.takes_redirects, "one redirect in a row")
        self.assertEqual(after(made, FAILED), ["*service"])
        self.assertFalse(made.takes_redirects)
        after(made, LOST)
        self.assertTrue(made.takes_redirects)

    def test_brief_sessions_are_followed_by_pauses(self) -> None:
        made = route("a", members="a,b")
        brief = End(lasted=0.0, is_answered=True)
        self.assertEqual(after(made, *[brief] * 5), ["b", "a", "b", "*a", "*b"])
        self.assertEqual(after(made, LOST), ["a"])

    def test_the_lost_owner_is_another_address(self) -> None:
        made = route("a", members="a,b")
        self.assertEqual((made.has_others, made.has_several), (True, True))
        self.assertEqual(after(made, LOST), ["b"])
        self.assertEqual((made.has_others, made.has_several), (False, True))
        made = route("service", members="a")
        self.assertEqual((made.has_others, made.has_several), (False, True))

    def test_a_session_that_goes_on_keeps_its_address(self) -> None:
        made = route("a", members="a,b")
        self.assertEqual(after(made, End(lasted=9.0, stays=True), FAILED), ["a", "b"])
        made = route("a", members="a,b")
        wants_time = End(lasted=9.0, stays=True, waits=True, is_answered=True)
        self.assertEqual(after(made, wants_time, FAILED), ["*a", "b"])

    def test_an_owner_that_wants_a_report_comes_first(self) -> None:
        made = route("service", members="a,b")
        self.assertEqual(after(made, End(lasted=9.0, stays=True, is_answered=True), FAILED), ["service", "b"])

    def test_the_end_of_a_session_names_an_owner_also_after_a_redirect(self) -> None:
        made = route("a", members="a,b,c")
        self.assertEqual(after(made, to("b")), ["b"])
        made.registered("b,a,c")
        self.assertEqual(after(made, End(lasted=9.0, is_answered=True, owner="c"), FAILED), ["c", "a"])

    def test_members_that_move_sessions_in_a_circle_are_called_slowly(self) -> None:
        made = route("a", members="a,b")
        moves = [End(lasted=0.0, is_answered=True, owner=owner) for owner in "bababa"]
        self.assertEqual(after(made, *moves), ["b", "a", "b", "*a", "*b", "*a"])

    def test_without_a_cluster_the_scheduler_that_has_answered_comes_next(self) -> None:
        made, over = route("a", "b"), End(stays=True, is_answered=True, is_over=True)
        self.assertEqual(after(made, End(lasted=9.0, stays=True), FAILED, over, over), ["a", "b", "b", "*b"])
        self.assertEqual(after(route("a"), over), ["*a"])
        self.assertEqual(after(route("a", "b"), End(stays=True, is_answered=True)), ["*a"])

    def test_a_client_has_an_order_of_its_own(self) -> None:
        seen = set()
        for seed in range(20):
            made = Route(["a"], shuffle=random.Random(seed).shuffle)
            made.registered("a,b,c,d")
            seen.add(tuple(after(made, LOST, FAILED, FAILED, FAILED)))
        self.assertGreater(len(seen), 3)
        self.assertTrue(all(order[-1] == "a" for order in seen))

    def test_lists_are_bounded_and_cleaned(self) -> None:
        made = route("a", members=",".join(f"h{at}:1" for at in range(1000)) + "," + "x" * 300)
        self.assertEqual(len(made._members), 100)
        made.registered(" b ,,c,b")
        self.assertEqual(made._members, ["b", "c"])
        made.registered("")
        self.assertFalse(made.is_cluster)

    def test_each_member_of_a_long_list_is_kept_by_some_clients(self) -> None:
        made = route("a")
        made._shuffle = lambda others: others.reverse()
        made.registered(",".join(f"h{at}:1" for at in range(1000)))
        self.assertEqual((len(made._members), made._members[:2]), (100, ["h0:1", "h999:1"]))

    def test_rounds_are_bounded_whatever_members_answer(self) -> None:
        for seed in range(300):
            dice = random.Random(seed)
            names = "abcdefg"[: dice.randrange(2, 7)]
            made = route(names[0], members=",".join(names))
            made.after(LOST)
            attempts = 1
            while made.after(dice.choice([FAILED, to(dice.choice(names), dice.randrange(9) == 0)])):
                attempts += 1
                self.assertLess(attempts, 100, seed)
            tried = {made.present}
            for _ in range(len(names)):
                made.after(FAILED)
                tried.add(made.present)
            self.assertEqual(tried, set(names), "each address has its turn")
