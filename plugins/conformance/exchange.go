// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

const (
	maxRecorded     = 40   // how many records of a check are kept. Older records are deleted.
	maxShownBytes   = 1000 // how many bytes of a request, an answer or a printed line are shown
	minSecretLength = 6    // in bytes. Other texts can contain a shorter secret by chance.
)

// exchange records the calls of one check: from the host to the plugin, and from the plugin to its
// provider. It also records the lines that the plugin prints. Records do not contain the secrets of
// the check, nor their forms in URLs, in JSON and in base64. exchange also records violations,
// which make the check fail. A violation is an error or a printed line that contains a secret, or a
// text of an outcome that is too long or has control characters. interceptors and
// recordProviderCall of a nil *exchange record nothing.
type exchange struct {
	mu             sync.Mutex
	secrets        map[string]string // maps the value of a secret to its name
	records        []string
	droppedRecords int
	violations     []string
}

// addSecrets adds secrets of the check. redact removes them, and searchLeak searches for them.
func (e *exchange) addSecrets(secrets map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, value := range secrets {
		if len(value) >= minSecretLength {
			e.secrets[value] = name
		}
	}
}

func (e *exchange) redact(text string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.redactLocked(text)
}

// redactLocked replaces the secrets in text, and their encoded forms. The caller holds e.mu.
func (e *exchange) redactLocked(text string) string {
	longestFirst := slices.SortedFunc(maps.Keys(e.secrets), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var forms []string
	for _, value := range longestFirst { // a secret can be a part of a longer secret
		text = strings.ReplaceAll(text, value, "[redacted]")
		forms = append(forms, unescapedForms(value)...)
	}
	return redactEscaped(redactEscaped(text, percentEscape, forms), jsonEscape, forms)
}

// redactAndShorten returns a short form of text without the secrets. It removes the secrets first,
// because it cannot find a secret that was cut.
func (e *exchange) redactAndShorten(text string) string { return shorten(e.redact(text)) }

func (e *exchange) record(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records = append(e.records, e.redactLocked(fmt.Sprintf(format, args...)))
	if len(e.records) > maxRecorded {
		e.records, e.droppedRecords = e.records[1:], e.droppedRecords+1
	}
}

// searchLeak records a violation if a text of the plugin contains a secret. where describes the
// text.
func (e *exchange) searchLeak(where, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for value, name := range e.secrets {
		if strings.Contains(text, value) {
			e.addViolation("%s contains the value of the secret %s", where, name)
		}
	}
}

func (e *exchange) checkTexts(detail, cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, text := range map[string]string{"detail": detail, "cause": cause} {
		if len(text) > wire.MaxText {
			e.addViolation("the %s of an outcome has %d bytes, but at most %d are allowed", name, len(text), wire.MaxText)
		}
		if strings.ContainsFunc(text, unicode.IsControl) {
			e.addViolation("the %s of an outcome contains a control character, such as a line break", name)
		}
	}
}

// addViolation records a violation, unless the same text is already recorded. The caller holds
// e.mu.
func (e *exchange) addViolation(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(e.violations, text) {
		e.violations = append(e.violations, text)
	}
}

func (e *exchange) recordOutput(line []byte) {
	text := strings.ToValidUTF8(string(line), "?")
	e.searchLeak("a line that the plugin prints", text)
	e.record("plugin prints: %s", e.redactAndShorten(text))
}

// interceptors returns the interceptor that records the calls of a connection.
func (e *exchange) interceptors(c sdk.Connection) []wire.Interceptor {
	if e == nil {
		return nil
	}
	secrets := map[string]string{}
	for name, value := range c.Secrets {
		secrets[name] = value.Reveal()
	}
	e.addSecrets(secrets)
	return []wire.Interceptor{func(ctx context.Context, call wire.Call, next func(context.Context) error) error {
		err := next(ctx)
		request, answer := call.Texts()
		if err == nil {
			e.record("host calls %s {%s}: {%s}", call.Operation, e.redactAndShorten(request), e.redactAndShorten(answer))
			return nil
		}
		e.searchLeak("the error of "+call.Operation, describeError(err))
		e.record("host calls %s {%s}: %s", call.Operation, e.redactAndShorten(request), describeError(err))
		return err
	}}
}

// describeError returns the kind and all texts of the error of a call.
func describeError(err error) string {
	var failure *outcome.Error
	if !errors.As(err, &failure) {
		return err.Error()
	}
	text := fmt.Sprintf("%s (code %q, cause %q, detail %q", failure.Kind, failure.Code.Name, failure.Cause, failure.Detail)
	if failure.RetryAfter > 0 {
		text += ", retry after " + failure.RetryAfter.String()
	}
	return text + ")"
}

// recordProviderCall records a request that the plugin sent to its provider, and its result.
func (e *exchange) recordProviderCall(r *http.Request, body []byte, result string) {
	if e != nil {
		e.record("plugin calls %s %s {%s}: %s", r.Method, r.URL.RequestURI(), e.redactAndShorten(strings.ToValidUTF8(string(body), "?")), e.redactAndShorten(result))
	}
}

// shorten returns a text on one line. It replaces the part after the first maxShownBytes bytes by
// an ellipsis.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxShownBytes {
		return text
	}
	end := maxShownBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// recordsAndViolations returns the records, oldest first, and the violations.
func (e *exchange) recordsAndViolations() (records, violations []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.droppedRecords > 0 {
		records = append(records, fmt.Sprintf("(%d earlier calls and lines are not shown)", e.droppedRecords))
	}
	return append(records, e.records...), e.violations
}
