"""From objects, events and log lines to the timeline of a run, and the share of it that made steps.

Pure: nothing here asks a cluster, a clock or a file. A moment that nothing tells is left out.

    model          moments, spans, a bar for each pod, the timeline
    log_marks      lines of a log that tell of a moment: a step, a rendezvous, a save
    of_objects     Kubernetes' objects and events -> timeline
    of_local_run   what the supervisor of a local run has written down -> timeline
    goodput        the share of the time that made steps, and what the rest was lost to
    rows           few rows of many pods: those that matter, and groups
    text, page     the timeline for a terminal, and as one HTML file
    otlp           the same as OpenTelemetry's spans
"""
