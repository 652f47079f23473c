// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCanonicalJSONFollowsRFC8785 checks examples of RFC 8785 in the cases that name a section. The
// numbers of these examples are left out, because entries have only integers.
func TestCanonicalJSONFollowsRFC8785(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{
			"strings and literals (section 3.2.2)",
			`{"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"the order of names (section 3.2.3)",
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		},
		{"integers", `[0, -0, 9007199254740991, -9007199254740991, 1e3, 56.0]`, `[0,0,9007199254740991,-9007199254740991,1000,56]`},
		{"escapes", `"\b\t\n\f\r\u0000\u001F\u007f</script>\u2028"`, `"\b\t\n\f\r\u0000\u001f` + "\u007f</script>\u2028" + `"`},
		{"nesting", ` [ { "b" : { } , "a" : [ ] } ] `, `[{"a":[],"b":{}}]`},
	} {
		decoder := json.NewDecoder(strings.NewReader(tc.text))
		decoder.UseNumber()
		value, err := parseValue(decoder)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendCanonical(nil, value); err != nil || string(got) != tc.want {
			t.Errorf("%s: got %s, %v\nwant %s", tc.name, got, err, tc.want)
		}
	}
}

func TestValuesThatEntriesCannotHaveAreRefused(t *testing.T) {
	for _, value := range []any{json.Number("1.5"), json.Number("9007199254740993"), json.Number("1e400"), int64(1 << 53), "\xff", []any{1}, map[string]any{"\xff": nil}} {
		if got, err := appendCanonical(nil, value); err == nil {
			t.Errorf("%v became %s, want an error", value, got)
		}
	}
}

func TestParseObjectRefusesMalformedAndAmbiguousLines(t *testing.T) {
	for _, line := range []string{``, `1`, `[]`, `{"a":1,"a":1}`, `{"a":{"b":1,"b":2}}`, `{} {}`, `{}x`, `{"a":"` + "\xff" + `"}`, `{"a":1`, `{"a" 1}`} {
		if got, err := parseObject([]byte(line)); err == nil {
			t.Errorf("%q became %v, want an error", line, got)
		}
	}
}
