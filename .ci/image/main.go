// SPDX-License-Identifier: Apache-2.0

// Command image builds the image of a Containerfile without a container engine, so that tests can
// inspect the image and start it:
//
//	go run ./.ci/image [-arg NAME=VALUE]… CONTAINERFILE FOLDER
//
// COPY copies files, and RUN runs its command on this machine. Temporary folders replace the
// folders /src and /out of the build stage. The command writes the root file system of the last
// stage to FOLDER/root, and the arguments of instructions such as ENV, USER and ENTRYPOINT to
// FOLDER/config.json.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	args := map[string]string{}
	flag.Func("arg", "a build argument, NAME=VALUE", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("a build argument must be NAME=VALUE")
		}
		args[name] = value
		return nil
	})
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := build(flag.Arg(0), flag.Arg(1), args); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// build executes the instructions of file and writes the image into folder. It first removes the
// content of folder.
func build(file, folder string, args map[string]string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "tenantry-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	stages := map[string]*stage{}
	var last *stage
	for line := range strings.Lines(string(raw)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		if word == "FROM" {
			base, name, _ := strings.Cut(rest, " AS ")
			last = &stage{root: filepath.Join(scratch, fmt.Sprint(len(stages))), config: map[string]string{word: base}}
			stages[name] = last
			err = os.Mkdir(last.root, 0o755)
		} else {
			err = last.do(word, rest, stages, args)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", word, rest, err)
		}
	}
	last.config["ENV"] = strings.Join(last.env, " ")
	config, err := json.Marshal(last.config)
	if err != nil {
		return err
	}
	return errors.Join(run("", nil, "cp", "-a", last.root, filepath.Join(folder, "root")), os.WriteFile(filepath.Join(folder, "config.json"), config, 0o600))
}

// stage is one stage of a Containerfile. root is the folder that replaces its root folder, and
// workdir is below root.
type stage struct {
	root, workdir string
	env           []string
	config        map[string]string // the arguments of instructions such as USER and ENTRYPOINT
}

func (s *stage) do(word, rest string, stages map[string]*stage, args map[string]string) error {
	switch word {
	case "COPY":
		return s.copy(stages, strings.Fields(rest))
	case "RUN":
		return s.run(rest)
	case "WORKDIR":
		s.workdir = filepath.Join(s.root, rest)
		return os.MkdirAll(s.workdir, 0o755)
	case "ARG":
		name, value, _ := strings.Cut(rest, "=")
		if argument, ok := args[name]; ok {
			value = argument
		}
		s.env = append(s.env, name+"="+value)
	case "ENV":
		s.env = append(s.env, strings.Fields(rest)...)
	case "USER", "EXPOSE", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD":
		s.config[word] = rest
	default:
		return errors.New("this command does not support the instruction")
	}
	return nil
}

func (s *stage) copy(stages map[string]*stage, words []string) error {
	from := "."
	if name, ok := strings.CutPrefix(words[0], "--from="); ok {
		from, words = stages[name].root, words[1:]
	}
	target := words[len(words)-1]
	to := filepath.Join(s.workdir, target)
	if strings.HasPrefix(target, "/") {
		to = filepath.Join(s.root, target)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range words[:len(words)-1] {
		source := filepath.Join(from, name)
		if info, err := os.Stat(source); err == nil && info.IsDir() {
			source += "/."
		}
		if err := run("", nil, "cp", "-a", source, to); err != nil {
			return err
		}
	}
	return nil
}

var outFolder = regexp.MustCompile(`(^|\s)/out\b`)

func (s *stage) run(command string) error {
	script := "set -e\n"
	if os.Getuid() != 0 {
		script += "chown() { :; }\n" // only root can change the owner of a file
	}
	script += outFolder.ReplaceAllString(command, "${1}"+filepath.Join(s.root, "out"))
	return run(s.workdir, s.env, "sh", "-c", script)
}

func run(folder string, env []string, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
