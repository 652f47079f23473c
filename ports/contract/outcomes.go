// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
)

var outcomeChecks = []check{
	{"a read tells throttled, down and broken apart", func(t testing.TB, w World) {
		who, client := connected(t, w, Setup{})
		for how, kind := range map[Failure]outcome.Kind{
			Throttles: outcome.Throttled, IsDown: outcome.Down, Breaks: outcome.Broken,
		} {
			lift := w.Fail(t, who.GUID, "Domains", how)
			_, err := client.Domains(call(t))
			lift()
			ended(t, "domains", err, kind)
			_, err = client.Domains(call(t))
			must(t, "domains afterwards", err)
		}
	}},
	{"a throttled or refused write has no effect", func(t testing.TB, w World) {
		who, client := connected(t, w, Setup{})
		for how, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			name := w.NewZone(t)
			lift := w.Fail(t, who.GUID, "AddDomain", how)
			_, err := client.AddDomain(call(t), name)
			lift()
			ended(t, "add", err, kind)
			if names := domainNames(t, client); slices.Contains(names, name) {
				t.Fatalf("the platform holds %s", name)
			}
		}
	}},
	{"a lost answer of an add is never a settled failure", func(t testing.TB, w World) {
		who, client := connected(t, w, Setup{})
		name := w.NewZone(t)
		lift := w.Fail(t, who.GUID, "AddDomain", LosesAnswer)
		_, err := client.AddDomain(call(t), name)
		lift()
		unsettled(t, err)
		_, err = client.AddDomain(call(t), name)
		must(t, "add again", err)
		if names := domainNames(t, client); len(names) != 1 {
			t.Fatalf("the platform holds %v", names)
		}
	}},
	{"a lost creation is never a settled failure", func(t testing.TB, w World) {
		who, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		made(t, w, client, "first@"+name)
		for how, address := range map[Failure]string{LosesRequest: "request@" + name, LosesAnswer: "answer@" + name} {
			lift := w.Fail(t, who.GUID, "CreateMailbox", how)
			_, err := client.CreateMailbox(call(t), mailbox.Spec{DisplayName: "Anna", Address: address})
			lift()
			unsettled(t, err)
			if got := slices.Contains(addresses(t, client), address); got != (how == LosesAnswer) {
				t.Fatalf("%s: held by the platform: %v", address, got)
			}
		}
	}},
	{"a failed rename leaves the name or is not settled", func(t testing.TB, w World) {
		who, client := ready(t, w, Setup{})
		m := made(t, w, client, "anna@"+accepted(t, w, client))
		lift := w.Fail(t, who.GUID, "Rename", LosesAnswer)
		err := client.Rename(call(t), m.Address, "Anna Schmidt")
		lift()
		unsettled(t, err)
		must(t, "rename again", client.Rename(call(t), m.Address, "Anna Schmidt"))
	}},
	{"a call whose context has ended does nothing", func(t testing.TB, w World) {
		_, client := ready(t, w, Setup{})
		name := accepted(t, w, client)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := client.CreateMailbox(ctx, mailbox.Spec{DisplayName: "Anna", Address: "anna@" + name})
		if err == nil || outcome.Of(err) == outcome.Refused || outcome.Of(err) == outcome.NotReady {
			t.Fatalf("got %v, want the end of the context", err)
		}
	}},
}

// unsettled checks a write whose answer got lost: it may have been looked up,
// and then it succeeds, but it is not reported as without effect.
func unsettled(t testing.TB, err error) {
	t.Helper()
	if err != nil && outcome.Settled(err) {
		t.Fatalf("got %v, which claims that nothing changed", err)
	}
}
