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

// createOnce creates an object that must not be created twice. find reads the object by its natural
// key. createOnce calls find before create, and again after create has failed. It does not call
// find again if the platform throttled or denied the creation, or if ctx has ended. It calls create
// again only if the object does not exist and the platform was out of service or not reached.
//
// isConflict reports whether an error means that the object exists. After such an error, createOnce
// calls find repeatedly for some seconds. If find does not return the object, createOnce returns
// the error of create, translated by finalError. The exception is a conflict after an earlier
// request that reached the platform and failed because the platform was out of service. That
// request may have created the object, so the outcome is Unknown.
func createOnce[T any](
	ctx context.Context, p call.RetryPolicy, find, create func() (T, error),
	isConflict func(error) bool, finalError func(error) error,
) (T, error) {
	var zero T
	if found, err := find(); !isAbsent(err) {
		return found, err
	}
	unavailable := false // an earlier request reached the platform, which was out of service
	for n := 0; ; n++ {
		created, err := create()
		if err == nil {
			return created, nil
		}
		if hasKind(err, outcome.Throttled) || call.IsDenied(err) || ctx.Err() != nil {
			return zero, err
		}
		lookups := 1
		if isConflict(err) {
			lookups = newObjectLookups
		}
		found, findErr := findAgain(ctx, p, lookups, find)
		if findErr == nil {
			return found, nil
		}
		if unavailable && isConflict(err) {
			return zero, &outcome.Error{
				Kind: outcome.Unknown, Cause: call.CauseOf(err), Detail: "the object may have been created and does not show yet",
			}
		}
		unavailable = unavailable || hasKind(err, outcome.Down) && !isUnsent(err)
		if !hasKind(err, outcome.Down) || !isAbsent(findErr) || n+1 >= p.MaxAttempts || !p.Pause(ctx, n, err) {
			return zero, finalError(err)
		}
	}
}

// newObjectLookups is the maximum number of lookups for an object that exists but may be new. It
// can take some seconds until the platform's replicas show a new object.
const newObjectLookups = 5

func findAgain[T any](ctx context.Context, p call.RetryPolicy, maxLookups int, find func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		found, err := find()
		if !isAbsent(err) || n+1 >= maxLookups || !p.Pause(ctx, min(n, 1), err) {
			return found, err
		}
	}
}

// isAbsent reports whether a lookup found no object with the key.
func isAbsent(err error) bool {
	return errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.MailboxNotFound)
}

func hasKind(err error, kind outcome.Kind) bool { return outcome.KindOf(err) == kind }

// retryNotFound repeats a request while Graph answers 404, but at most as often as the retry policy
// allows. It can take some seconds until Graph's replicas show a new object.
func retryNotFound[T any](ctx context.Context, c *tenantClient, send func() (T, error)) (T, error) {
	p := c.platform.state.retry
	for n := 0; ; n++ {
		v, err := send()
		if graph.Status(err) != http.StatusNotFound || n+1 >= p.MaxAttempts || !p.Pause(ctx, n, err) {
			return v, err
		}
	}
}
