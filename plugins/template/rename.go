// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"go/format"
	"regexp"
	"strings"
)

// SDKModule is the path of the Go module that has the SDK.
const SDKModule = "github.com/tenantry/tenantry"

const (
	// templateModule is the beginning of the import paths of the templates.
	templateModule = SDKModule + "/plugins/template/"
	// unreleased is the version of the SDK in gomod.txt.
	unreleased = "v0.0.0"
)

// fileText returns the text of a template's file for the new plugin. It has no licence line,
// because the author chooses the licence.
func (o Options) fileText(extension, content string) (string, error) {
	content = withoutLicence(content)
	if extension != ".go" {
		return rename(content, o.Name), nil
	}
	content = strings.ReplaceAll(content, templateModule+o.Language+"-"+o.Kind, o.Module)
	formatted, err := format.Source([]byte(rename(content, o.Name))) // a name of a different length changes how gofmt aligns columns
	return string(formatted), err
}

// withoutLicence removes the SPDX line at the beginning of a text, and the empty line after it.
func withoutLicence(content string) string {
	beforeSPDX, afterSPDX, found := strings.Cut(content, "SPDX-License-Identifier: Apache-2.0")
	if !found || strings.Count(beforeSPDX, "\n") > 1 {
		return content
	}
	firstLine := beforeSPDX[:strings.LastIndexByte(beforeSPDX, '\n')+1]
	_, remaining, _ := strings.Cut(afterSPDX, "\n")
	return firstLine + strings.TrimPrefix(remaining, "\n")
}

// exampleWord matches the word "example". The match includes "for " or a dot before the word, and
// the top-level domain of a reserved domain after it. rename keeps the words with such a context.
var exampleWord = regexp.MustCompile(`([Ff]or |\.)?\b(example|Example|EXAMPLE)\b(\.(?:com|net|org)\b)?`)

// rename replaces the word "example" by the name of the plugin. It replaces "Example" by the name
// with an upper-case initial, and "EXAMPLE" by the name in upper case. It keeps reserved domains
// and "for example".
func rename(text, name string) string {
	title := strings.ToUpper(name[:1]) + name[1:]
	// exampleWord does not match in this name of a variable, because \b does not match beside "_".
	text = strings.ReplaceAll(text, "PROVIDERS_EXAMPLE_", "PROVIDERS_"+strings.ToUpper(name)+"_")
	return exampleWord.ReplaceAllStringFunc(text, func(match string) string {
		m := exampleWord.FindStringSubmatch(match)
		before, word, after := m[1], m[2], m[3]
		switch {
		case strings.HasSuffix(before, "or "), before == "." || after != "":
			return match // "for example", or a reserved domain
		case word == "example":
			word = name
		case word == "Example":
			word = title
		default:
			word = strings.ToUpper(name)
		}
		return before + word + after
	})
}

// goMod returns the go.mod of the new plugin.
func (o Options) goMod(text string) string {
	text = strings.Replace(text, "module example\n", "module "+o.Module+"\n", 1)
	if o.Source == "" {
		return strings.Replace(text, SDKModule+" "+unreleased, SDKModule+" v"+o.Version, 1)
	}
	return text + fmt.Sprintf("\n// With a release of tenantry, name it above and remove this line.\nreplace %s => %s\n", SDKModule, o.Source)
}
