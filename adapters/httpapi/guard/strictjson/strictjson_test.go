// SPDX-License-Identifier: Apache-2.0

package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tenantry/tenantry/adapters/httpapi/guard/strictjson"
)

func TestAmbiguousJSONIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, document string
		want           error
	}{
		{"object", `{"a":[1,"é",null,true]}`, nil},
		{"sixteen levels", strings.Repeat("[", 16) + strings.Repeat("]", 16), nil},
		{"seventeen levels", strings.Repeat("[", 17) + strings.Repeat("]", 17), strictjson.ErrDepth},
		{"hostile nesting", strings.Repeat(`{"a":`, 9000), strictjson.ErrDepth},
		{"brackets in a string are not levels", `"` + strings.Repeat("[", 40) + `"`, nil},
		{"same name in two objects", `{"a":{"b":1},"c":{"b":2}}`, nil},
		{"names in different case are different members", `{"a":1,"A":2}`, nil},
		{"duplicate member", `{"a":1,"a":2}`, strictjson.ErrDuplicate},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, strictjson.ErrDuplicate},
		{"duplicate deep inside", `[{"x":[{"a":1,"a":1}]}]`, strictjson.ErrDuplicate},
		{"escaped NUL", `{"a":"\u0000"}`, strictjson.ErrNull},
		{"escaped NUL in a name", `{"\u0000":1}`, strictjson.ErrNull},
		{"an escaped backslash before u0000", `"\\u0000"`, nil},
		{"raw NUL", "\"\x00\"", strictjson.ErrSyntax},
		{"surrogate pair", `"\ud83d\ude00"`, nil},
		{"lone high surrogate", `"\ud83d"`, strictjson.ErrSurrogate},
		{"lone low surrogate", `"\ude00"`, strictjson.ErrSurrogate},
		{"high surrogate twice", `"\ud83d\ud83d"`, strictjson.ErrSurrogate},
		{"invalid UTF-8", "\"\xff\"", strictjson.ErrEncoding},
		{"surrogate as UTF-8", "\"\xed\xa0\x80\"", strictjson.ErrEncoding},
		{"byte order mark", "\ufeff{}", strictjson.ErrSyntax},
		{"empty", "", strictjson.ErrSyntax},
		{"trailing data", `{} x`, strictjson.ErrSyntax},
		{"two documents", `{}{}`, strictjson.ErrSyntax},
		{"NaN", `{"a":NaN}`, strictjson.ErrSyntax},
		{"open string", `"abc`, strictjson.ErrSyntax},
		{"half an escape", `"\u00`, strictjson.ErrSyntax},
		{"a number beyond float64", `1e400`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := strictjson.Check([]byte(tc.document)); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// FuzzStrictJSON checks that encoding/json can decode each document that Check accepts. Decoding
// must lose no member and replace no character.
func FuzzStrictJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `"\ud83d"`, `[[[]]]`, `{"a":"\u0000"}`, "\xff", `{}x`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if strictjson.Check(document) != nil {
			return
		}
		var value any
		decoder := json.NewDecoder(strings.NewReader(string(document)))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("Check accepted a document that cannot be decoded: %v", err)
		}
		if written, decoded := countColons(document), countMembers(value); written != decoded {
			t.Fatalf("%d members were decoded, want the %d of the document", decoded, written)
		}
		checkNoReplacement(t, value, strings.ContainsRune(string(document), utf8.RuneError) ||
			strings.Contains(strings.ToLower(string(document)), `\ufffd`))
	})
}

// countColons counts the colons outside strings. A valid document has one for each member.
func countColons(document []byte) (n int) {
	inString := false
	for i := 0; i < len(document); i++ {
		switch {
		case inString && document[i] == '\\':
			i++
		case document[i] == '"':
			inString = !inString
		case !inString && document[i] == ':':
			n++
		}
	}
	return n
}

// countMembers counts the members of all objects in a decoded document.
func countMembers(value any) (n int) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			n += 1 + countMembers(member)
		}
	case []any:
		for _, item := range v {
			n += countMembers(item)
		}
	}
	return n
}

// checkNoReplacement checks that no decoded string has the replacement character U+FFFD, unless
// allowed is true, and that none has U+0000.
func checkNoReplacement(t *testing.T, value any, allowed bool) {
	switch v := value.(type) {
	case string:
		if strings.ContainsRune(v, utf8.RuneError) && !allowed {
			t.Fatalf("a character was replaced in %q", v)
		}
		if strings.ContainsRune(v, 0) {
			t.Fatalf("Check accepted U+0000 in %q", v)
		}
	case map[string]any:
		for name, member := range v {
			checkNoReplacement(t, name, allowed)
			checkNoReplacement(t, member, allowed)
		}
	case []any:
		for _, item := range v {
			checkNoReplacement(t, item, allowed)
		}
	}
}
