"""The stream tables of self-monitoring: their names and queries.

What they themselves do is left out: otherwise each of their refreshes would be a change to follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_OF_OTHERS = "NOT EXISTS (SELECT FROM pgtrickle.pgt_self_monitoring AS m WHERE m.pgt_id = h.pgt_id)"

# Averages of floating-point numbers would depend on the order in which they are added.
EFFICIENCY = f"""
    SELECT h.pgt_id, h.action, count(*) AS refreshes,
           count(*) FILTER (WHERE h.status = 'FAILED') AS failures,
           round(avg(h.actual_ms::numeric), 3) AS avg_ms, max(h.actual_ms) AS max_ms,
           round(avg(h.predicted_ms::numeric), 3) AS avg_predicted_ms,
           sum(h.changed_rows) AS changed_rows,
           sum(h.rows_read) AS rows_read, sum(h.rows_inserted + h.rows_deleted) AS rows_written
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.status IN ('COMPLETED', 'FAILED') AND {_OF_OTHERS}
     GROUP BY h.pgt_id, h.action
"""
# A refresh that took a second, and three times what was predicted, is worth a look.
ANOMALIES = f"""
    SELECT h.refresh_id, h.pgt_id, h.start_time, h.action, h.error_code, h.actual_ms,
           h.predicted_ms, h.changed_rows,
           CASE WHEN h.status = 'FAILED' THEN 'failed'
                WHEN h.action = 'REINITIALIZE' THEN 'reinitialized' ELSE 'slow' END AS anomaly
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE (h.status = 'FAILED' OR h.action = 'REINITIALIZE'
            OR (h.actual_ms > 1000 AND h.actual_ms > 3 * h.predicted_ms))
       AND {_OF_OTHERS}
"""
BUFFER_TRENDS = f"""
    SELECT h.pgt_id,
           date_bin(interval '1 hour', h.start_time, timestamptz '2000-01-01 00:00+00') AS hour,
           count(*) AS refreshes, sum(h.changed_rows) AS changed_rows,
           max(h.changed_rows) AS largest_window, sum(h.bytes_read) AS bytes_read
      FROM pgtrickle.pgt_refresh_history AS h
     WHERE h.status = 'COMPLETED' AND h.changed_rows > 0 AND {_OF_OTHERS}
     GROUP BY h.pgt_id,
           date_bin(interval '1 hour', h.start_time, timestamptz '2000-01-01 00:00+00')
"""
PARTS: Mapping[str, str] = MappingProxyType(
    {"efficiency": EFFICIENCY, "anomalies": ANOMALIES, "buffer_trends": BUFFER_TRENDS}
)
