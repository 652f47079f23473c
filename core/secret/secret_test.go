// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/secret"
)

const canary = "canary-zebra"

type exportedFields struct {
	Name     string
	Password secret.Text
}

type unexportedFields struct {
	name     string
	password secret.Text
	list     []secret.Text
	byName   map[string]secret.Text
}

// shapes returns values that contain a secret, by the way in which they contain it.
func shapes(s secret.Text) map[string]any {
	hidden := unexportedFields{"n", s, []secret.Text{s}, map[string]secret.Text{"k": s}}
	return map[string]any{
		"itself": s, "pointer": &s, "slice": []secret.Text{s}, "map": map[string]secret.Text{"k": s},
		"exported field": exportedFields{"n", s}, "pointer to struct": &exportedFields{"n", s},
		"unexported field": hidden, "pointer to unexported field": &hidden, "in any": []any{s}, "error": fmt.Errorf("refused %v", s),
	}
}

func TestNoVerbShowsTheSecret(t *testing.T) {
	for name, shape := range shapes(secret.New(canary)) {
		t.Run(name, func(t *testing.T) {
			for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
				for _, flags := range []string{"", "+", "#", " ", "-40", "020", ".3"} {
					requireNoLeak(t, fmt.Sprintf("%"+flags+string(verb), shape))
				}
			}
			requireNoLeak(t, fmt.Sprint(shape), fmt.Sprintln(shape))
		})
	}
}

func TestNoEncodingShowsTheSecret(t *testing.T) {
	for name, shape := range shapes(secret.New(canary)) {
		t.Run(name, func(t *testing.T) {
			if out, err := json.Marshal(shape); err == nil {
				requireNoLeak(t, string(out))
			}
			if out, err := xml.Marshal(shape); err == nil {
				requireNoLeak(t, string(out))
			}
			var log bytes.Buffer
			slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "k", shape, slog.Any("g", slog.GroupValue(slog.Any("k", shape))))
			slog.New(slog.NewTextHandler(&log, nil)).Info("m", "k", shape)
			if !strings.Contains(log.String(), "k") {
				t.Fatalf("the log is %q, want the key k", log.String())
			}
			requireNoLeak(t, log.String())
		})
	}
}

func TestMapKeyIsRedacted(t *testing.T) {
	out, err := json.Marshal(map[secret.Text]int{secret.New(canary): 1})
	if err != nil {
		t.Fatal(err)
	}
	requireNoLeak(t, string(out))
}

func TestPanicIsRedacted(t *testing.T) {
	defer func() { requireNoLeak(t, fmt.Sprint(recover())) }()
	panic(secret.New(canary))
}

func TestOnlyRevealReturnsTheSecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		s := secret.New(value)
		if s.Reveal() != value || s.Empty() != (value == "") {
			t.Fatalf("for the value %q, Reveal returns %q and Empty %t", value, s.Reveal(), s.Empty())
		}
		if s.String() != "[redacted]" || s.GoString() != "[redacted]" {
			t.Fatal("the secret is not shown as [redacted]")
		}
	})
}

func TestLeaksFindsPlantedSecret(t *testing.T) {
	for _, text := range []string{canary, "x" + hex.EncodeToString([]byte(canary)), fmt.Sprintf("%X", canary)} {
		if !leaks(text) {
			t.Errorf("leaks does not find the canary in %q", text)
		}
	}
}

func requireNoLeak(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if leaks(text) {
			t.Fatalf("%q shows the secret", text)
		}
	}
}

// leaks reports whether the text contains a part of the canary, also in hexadecimal form.
func leaks(text string) bool {
	return strings.Contains(text, "canary") || strings.Contains(text, "zebra") ||
		strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(canary[:3])))
}
