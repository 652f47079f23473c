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
	wantPauses := []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	for _, jitter := range []float64{0, 0.5, 0.999} {
		delivery := webhook.Delivery{EventType: event.DomainAdded, Status: webhook.Pending}
		at, pauses := now, []time.Duration(nil)
		for delivery.Status == webhook.Pending {
			delivery = delivery.AfterTry(webhook.Response{StatusCode: 500, Duration: time.Second}, at, jitter)
			if delivery.Status == webhook.Pending {
				pauses = append(pauses, delivery.NextAttemptAt.Sub(at)-time.Second)
				at = delivery.NextAttemptAt
			}
		}
		if delivery.Status != webhook.Failed || delivery.Tries != 10 || webhook.MaxTries != 10 || len(delivery.Attempts) != 10 || len(pauses) != len(wantPauses) {
			t.Fatalf("got %+v, want a failed delivery after 10 tries", delivery)
		}
		for n, pause := range pauses {
			if pause < wantPauses[n] || pause > wantPauses[n]*6/5 || jitter == 0 && pause != wantPauses[n] {
				t.Errorf("pause %d with jitter %v: got %s, want %s or up to a fifth more", n, jitter, pause, wantPauses[n])
			}
		}
	}
}

func TestAResponseDecidesWhetherADeliveryIsTriedAgain(t *testing.T) {
	day := 24 * time.Hour
	for _, tc := range []struct {
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
		delivery := webhook.Delivery{EventType: event.DomainAdded, Status: webhook.Pending, NextAttemptAt: now}
		after := delivery.AfterTry(tc.response, now, 0)
		if after.Status != tc.wantStatus || after.NextAttemptAt.Sub(now) != tc.wantPause || after.Attempts[0].Error != tc.wantError ||
			after.Attempts[0].StatusCode != tc.response.StatusCode || tc.response.IsGone() != (tc.name == "gone") {
			t.Errorf("%s: got %+v, want %s, the pause %s and the error %q", tc.name, after, tc.wantStatus, tc.wantPause, tc.wantError)
		}
	}
	if delivery := (webhook.Delivery{EventType: webhook.TestType, Status: webhook.Pending}).AfterTry(webhook.Response{StatusCode: 500}, now, 0); delivery.Status != webhook.Failed {
		t.Errorf("a failed delivery of a test event is %+v, want the status failed after one try", delivery)
	}
}

func TestADeliveryStoresItsLastFiftyAttempts(t *testing.T) {
	delivery := webhook.Delivery{Status: webhook.Pending, EventType: event.DomainAdded}
	for n := range 120 {
		before := slices.Clone(delivery.Attempts)
		next := delivery.AfterTry(webhook.Response{StatusCode: 500 + n}, now, 0)
		if !slices.Equal(before, delivery.Attempts) {
			t.Fatal("AfterTry changes the delivery on which it is called")
		}
		next.Tries = 0 // as in a redelivery, so that the number of tries does not end the delivery
		delivery = next
	}
	if len(delivery.Attempts) != 50 || delivery.Attempts[49].StatusCode != 619 || delivery.Attempts[0].StatusCode != 570 {
		t.Errorf("%d attempts are stored, want the last 50: %+v", len(delivery.Attempts), delivery.Attempts)
	}
}
