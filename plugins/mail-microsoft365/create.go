// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

// create makes something that must not be made twice and that look finds by
// its natural key. It looks first, and again after whatever went wrong; only
// what is not there, and met a platform out of service, is asked for again.
// conflicts tells the refusals that say it is there; refused reads a final
// error.
func create[T any](
	ctx context.Context, p call.Patience, look, make func() (T, error),
	conflicts func(error) bool, refused func(error) error,
) (T, error) {
	var none T
	if found, err := look(); !absent(err) {
		return found, err
	}
	for n := 0; ; n++ {
		made, err := make()
		if err == nil {
			return made, nil
		}
		if is(err, outcome.Throttled) || call.Denied(err) || ctx.Err() != nil {
			return none, err
		}
		looks := 1
		if conflicts(err) {
			looks = patientLooks
		}
		found, lookErr := lookAgain(ctx, p, looks, look)
		if lookErr == nil {
			return found, nil
		}
		if !is(err, outcome.Down) || !absent(lookErr) || n+1 >= p.Tries || !p.Pause(ctx, n, err) {
			return none, refused(err)
		}
	}
}

// patientLooks is how often we look for what the platform says is there: its
// replicas take some seconds to show what a lost answer of ours has made.
const patientLooks = 5

func lookAgain[T any](ctx context.Context, p call.Patience, times int, look func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		found, err := look()
		if !absent(err) || n+1 >= times || !p.Pause(ctx, min(n, 1), err) {
			return found, err
		}
	}
}

// absent reports whether a look says that there is nothing of that key.
func absent(err error) bool {
	return errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.MailboxNotFound)
}

// is reports whether err ended in this kind.
func is(err error, kind outcome.Kind) bool { return outcome.Of(err) == kind }

// afterLag repeats a request about what may just have been added: for some
// seconds Graph's replicas do not all know it.
func afterLag[T any](ctx context.Context, c *client, send func() (T, error)) (T, error) {
	p := c.platform.house.patience
	for n := 0; ; n++ {
		v, err := send()
		if graph.Status(err) != http.StatusNotFound || n+1 >= p.Tries || !p.Pause(ctx, n, err) {
			return v, err
		}
	}
}
