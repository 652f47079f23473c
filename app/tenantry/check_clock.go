// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Signatures and tokens carry times: Microsoft takes five minutes of
// difference, and what is a minute off gets worse.
const (
	clockWarning = 5 * time.Second
	clockFailure = time.Minute
)

// clock compares this machine's clock with that of the database's server and
// of the mail platform.
func (e *examination) clock(ctx context.Context) finding {
	var compared []string
	worst := time.Duration(0)
	note := func(whose string, ahead time.Duration) {
		compared = append(compared, fmt.Sprintf("%s from %s", ahead.Abs().Round(time.Second), whose))
		if ahead.Abs() > worst.Abs() {
			worst = ahead
		}
	}
	if db, err := e.open(); err == nil {
		if ahead, has, err := db.Ahead(ctx); err == nil && has {
			note("the database's", ahead)
		}
	}
	if at, found := e.platformTime(ctx); found {
		note("the mail platform's", at)
	}
	how := "this machine's clock is off by " + strings.Join(compared, ", ")
	const fix = "set the clocks by NTP: timedatectl set-ntp true"
	switch {
	case len(compared) == 0:
		return doubtful("mend the check mail_platform first, or set the clock by NTP: timedatectl set-ntp true", "no other clock could be asked")
	case worst.Abs() > clockFailure:
		return broken(fix, "%s", how)
	case worst.Abs() > clockWarning:
		return doubtful(fix, "%s", how)
	default:
		return fine("%s", how)
	}
}

// platformTime tells how far the clock of the mail platform's first host is
// ahead, by the Date of any answer. A date has whole seconds, so half a second
// is added.
func (e *examination) platformTime(ctx context.Context) (time.Duration, bool) {
	about, err := e.about(mailPlatform)
	if err != nil {
		return 0, false
	}
	for _, field := range about.Fields {
		if !strings.HasSuffix(field.Name, "_url") {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodHead, cmp.Or(e.config.Providers[mailPlatform][field.Name], field.Default), nil)
		if err != nil {
			return 0, false
		}
		began := time.Now()
		a, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			return 0, false
		}
		_ = a.Body.Close()
		there, err := http.ParseTime(a.Header.Get("Date"))
		return there.Add(500 * time.Millisecond).Sub(began.Add(time.Since(began) / 2)), err == nil
	}
	return 0, false
}
