// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/webhook"
)

func TestTriesFollowTheSchedule(t *testing.T) {
	want := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	for _, jitter := range []float64{0, 0.5, 0.999} {
		d := webhook.Delivery{EventType: event.DomainAdded, Status: webhook.Pending}
		at, pauses := now, []time.Duration(nil)
		for d.Status == webhook.Pending {
			d = d.AfterTry(webhook.Response{StatusCode: 500, Duration: time.Second}, at, jitter)
			if d.Status == webhook.Pending {
				pauses = append(pauses, d.NextAttemptAt.Sub(at)-time.Second)
				at = d.NextAttemptAt
			}
		}
		if d.Status != webhook.Failed || d.Tries != 10 || webhook.MaxTries != 10 || len(d.Attempts) != 10 || len(pauses) != len(want) {
			t.Fatalf("got %+v, want a failed delivery after 10 tries", d)
		}
		for n, pause := range pauses {
			if pause < want[n] || pause > want[n]*6/5 || jitter == 0 && pause != want[n] {
				t.Errorf("pause %d with jitter %v: got %s, want %s or up to a fifth more", n, jitter, pause, want[n])
			}
		}
	}
}

func TestResultsOfTries(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name       string
		response   webhook.Response
		wantStatus webhook.DeliveryStatus
		wantPause  time.Duration
		wantError  string
	}{
		{"accepted", webhook.Response{StatusCode: 204}, webhook.Delivered, 0, ""},
		{"redirect", webhook.Response{StatusCode: 302}, webhook.Pending, 5 * time.Second, "the endpoint answered 302"},
		{"no connection", webhook.Response{Error: "the connection failed"}, webhook.Pending, 5 * time.Second, "the connection failed"},
		{"an error after the status", webhook.Response{StatusCode: 200, Error: "cut"}, webhook.Pending, 5 * time.Second, "cut"},
		{"a demanded pause", webhook.Response{StatusCode: 503, RetryAfter: time.Hour}, webhook.Pending, time.Hour, "the endpoint answered 503"},
		{"a demanded pause that is too short", webhook.Response{StatusCode: 429, RetryAfter: time.Second}, webhook.Pending, 5 * time.Second, "the endpoint answered 429"},
		{"a demanded pause that is too long", webhook.Response{StatusCode: 429, RetryAfter: 3 * day}, webhook.Pending, day, "the endpoint answered 429"},
		{"gone", webhook.Response{StatusCode: 410}, webhook.Failed, 0, "the endpoint answered 410"},
		{"a final error", webhook.Response{Error: "x", Final: true}, webhook.Failed, 0, "x"},
	} {
		d := webhook.Delivery{EventType: event.DomainAdded, Status: webhook.Pending, NextAttemptAt: now}
		after := d.AfterTry(c.response, now, 0)
		if after.Status != c.wantStatus || after.NextAttemptAt.Sub(now) != c.wantPause || after.Attempts[0].Error != c.wantError ||
			after.Attempts[0].StatusCode != c.response.StatusCode || c.response.IsGone() != (c.name == "gone") {
			t.Errorf("%s: got %+v, want %s, the pause %s and the error %q", c.name, after, c.wantStatus, c.wantPause, c.wantError)
		}
	}
	if d := (webhook.Delivery{EventType: webhook.TestType, Status: webhook.Pending}).AfterTry(webhook.Response{StatusCode: 500}, now, 0); d.Status != webhook.Failed {
		t.Errorf("a test is tried again: %+v", d)
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	d := webhook.Delivery{Status: webhook.Pending, EventType: event.DomainAdded}
	for n := range 120 {
		before := slices.Clone(d.Attempts)
		next := d.AfterTry(webhook.Response{StatusCode: 500 + n}, now, 0)
		if !slices.Equal(before, d.Attempts) {
			t.Fatal("the earlier delivery was changed")
		}
		next.Tries = 0 // a redelivery starts to count again
		d = next
	}
	if len(d.Attempts) != 50 || d.Attempts[49].StatusCode != 619 || d.Attempts[0].StatusCode != 570 {
		t.Errorf("%d attempts are stored, want the last 50: %+v", len(d.Attempts), d.Attempts)
	}
}
