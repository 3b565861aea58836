// Command template is `helm template` for the tests, many times in one process: a third of what a
// helm does for one render is to start.
//
// It reads a request per line, {"args": [...], "stdin": "..."}, where args are those of `helm
// template`, and answers with a line {"stdout": "...", "stderr": "...", "code": 0}. Options that it does not
// know are answered with {"unknown": "..."}: the caller asks the real helm. What it does between the
// options and the text is helm's own; tests/charts/helm/test_template_server.py holds both equal.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/release"
)

type request struct {
	Args  []string `json:"args"`
	Stdin string   `json:"stdin"`
}

type answer struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Code    int    `json:"code"`
	Unknown string `json:"unknown,omitempty"`
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	encoder := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var asked request
		if err == nil {
			err = json.Unmarshal(line, &asked)
		}
		if err == nil {
			err = encoder.Encode(respond(asked))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

func respond(asked request) answer {
	var notices bytes.Buffer
	log.SetOutput(&notices)
	slog.SetDefault(slog.New(slog.NewTextHandler(&notices, &slog.HandlerOptions{Level: slog.LevelWarn})))
	client := action.NewInstall(&action.Configuration{})
	options := &values.Options{}
	flags := pflag.NewFlagSet("template", pflag.ContinueOnError)
	flags.StringSliceVarP(&options.ValueFiles, "values", "f", nil, "")
	flags.StringArrayVar(&options.Values, "set", nil, "")
	flags.StringArrayVar(&options.StringValues, "set-string", nil, "")
	flags.StringArrayVar(&options.JSONValues, "set-json", nil, "")
	flags.StringArrayVar(&options.LiteralValues, "set-literal", nil, "")
	flags.BoolVar(&client.SkipSchemaValidation, "skip-schema-validation", false, "")
	flags.BoolVar(&client.IsUpgrade, "is-upgrade", false, "")
	namespace := flags.StringP("namespace", "n", "", "")
	version := flags.String("kube-version", "", "")
	apis := flags.StringSliceP("api-versions", "a", nil, "")
	flags.BoolVar(&client.IncludeCRDs, "include-crds", false, "")
	if err := flags.Parse(asked.Args); err != nil {
		return answer{Unknown: err.Error()}
	}
	client.DryRun, client.ClientOnly, client.DryRunOption = true, true, "true"
	client.ReleaseName = "release-name"
	client.Replace = true
	client.APIVersions = chartutil.VersionSet(*apis)
	if *version != "" {
		parsed, err := chartutil.ParseKubeVersion(*version)
		if err != nil {
			return answer{Unknown: err.Error()}
		}
		client.KubeVersion = parsed
	}
	rendered, err := render(client, options, flags.Args(), *namespace, asked.Stdin)
	if err != nil {
		notices.WriteString("Error: " + err.Error() + "\n")
		return answer{Stderr: notices.String(), Code: 1}
	}
	return answer{Stdout: text(rendered), Stderr: notices.String()}
}

func render(
	client *action.Install, options *values.Options, args []string, namespace, stdin string,
) (*release.Release, error) {
	settings := cli.New()
	settings.SetNamespace(namespace)
	name, reference, err := client.NameAndChart(args)
	if err != nil {
		return nil, err
	}
	client.ReleaseName = name
	path, err := client.LocateChart(reference, settings)
	if err != nil {
		return nil, err
	}
	restore, err := provide(stdin)
	if err != nil {
		return nil, err
	}
	defer restore()
	merged, err := options.MergeValues(getter.All(settings))
	if err != nil {
		return nil, err
	}
	chart, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	client.Namespace = settings.Namespace()
	installed, err := client.RunWithContext(context.Background(), chart, merged)
	if err != nil && installed != nil {
		return nil, fmt.Errorf("%w\n\nUse --debug flag to render out invalid YAML", err)
	}
	if err != nil {
		return nil, err
	}
	return installed, nil
}

// provide makes a text what helm reads from standard input, until the function that it returns is called.
func provide(text string) (func(), error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	own := os.Stdin
	os.Stdin = reader
	go func() {
		_, _ = io.WriteString(writer, text)
		_ = writer.Close()
	}()
	return func() {
		os.Stdin = own
		_ = reader.Close()
	}, nil
}

func text(rendered *release.Release) string {
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(rendered.Manifest))
	for _, hook := range rendered.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return out.String()
}
