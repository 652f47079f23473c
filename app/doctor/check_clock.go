// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The clock check warns if a clock differs from this machine's clock by more than clockWarning, and
// fails above clockFailure. Signatures and tokens contain times, and the mail platform tolerates a
// difference of five minutes. The check fails earlier, because a clock that is off by a minute
// usually drifts further.
const (
	clockWarning = 5 * time.Second
	clockFailure = time.Minute
)

// checkClock compares this machine's clock with the clocks of the database server and of the mail
// platform, if it can read them.
func (e *examination) checkClock(ctx context.Context) finding {
	var compared []string
	largestOffset := time.Duration(0)
	addOffset := func(clock string, offset time.Duration) {
		compared = append(compared, fmt.Sprintf("%s from %s", offset.Abs().Round(time.Second), clock))
		largestOffset = max(largestOffset, offset.Abs())
	}
	if db, err := e.openDatabase(); err == nil {
		if offset, hasClock, err := db.ClockSkew(ctx); err == nil && hasClock {
			addOffset("the database's", offset)
		}
	}
	if offset, found := e.platformClockOffset(ctx); found {
		addOffset("the mail platform's", offset)
	}
	summary := "this machine's clock is off by " + strings.Join(compared, ", ")
	const fix = "set the clocks by NTP: timedatectl set-ntp true"
	switch {
	case len(compared) == 0:
		return warningFinding("fix the check mail_platform first, or set the clock by NTP: timedatectl set-ntp true", "no other clock could be read")
	case largestOffset > clockFailure:
		return failedFinding(fix, "%s", summary)
	case largestOffset > clockWarning:
		return warningFinding(fix, "%s", summary)
	default:
		return okFinding("%s", summary)
	}
}

// platformClockOffset returns how far the mail platform's clock is ahead of this machine's clock.
// It sends a request to the URL in the plugin's first setting with a name that ends in _url, and
// reads the Date header of the response. It adds half a second, the average of the fraction that
// the header lacks. It returns false when it could not read a time.
func (e *examination) platformClockOffset(ctx context.Context) (time.Duration, bool) {
	description, err := e.describe(e.config.MailPlatform)
	if err != nil {
		return 0, false
	}
	for _, field := range description.Fields {
		if !strings.HasSuffix(field.Name, "_url") {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, cmp.Or(e.config.Providers[e.config.MailPlatform][field.Name], field.Default), nil)
		if err != nil {
			return 0, false
		}
		start := time.Now()
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return 0, false
		}
		_ = response.Body.Close()
		platformTime, err := http.ParseTime(response.Header.Get("Date"))
		requestMidpoint := start.Add(time.Since(start) / 2)
		return platformTime.Add(500 * time.Millisecond).Sub(requestMidpoint), err == nil
	}
	return 0, false
}
