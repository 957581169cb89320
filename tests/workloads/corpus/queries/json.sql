-- JSON: paths, elements, and objects that are built from rows.

-- purchases_by_page: amounts of purchases by the page they were made on
SELECT payload ->> 'page' AS page, count(*) AS buys, sum((payload ->> 'amount')::numeric) AS amount
  FROM events WHERE kind = 'buy' GROUP BY payload ->> 'page';

-- items_viewed: titles of the items that were viewed most, by a key inside the payload
SELECT i.item_id, i.title, count(*) AS views, count(DISTINCT e.visitor) AS visitors
  FROM events AS e JOIN items AS i ON i.item_id = (e.payload ->> 'item')::int
 WHERE e.kind = 'view'
 GROUP BY i.item_id, i.title;

-- lines_of_purchases: lines inside of payloads, joined with their items
SELECT e.event_id, (line.value ->> 'item')::int AS item_id, i.title, (line.value ->> 'n')::int AS pieces
  FROM events AS e
 CROSS JOIN LATERAL jsonb_array_elements(e.payload -> 'lines') AS line
  LEFT JOIN items AS i ON i.item_id = (line.value ->> 'item')::int
 WHERE e.kind = 'buy';

-- revenue_of_lines: list prices of the lines inside of payloads, by device
SELECT e.payload ->> 'device' AS device, sum(i.list_price * (line.value ->> 'n')::int) AS listed
  FROM events AS e
 CROSS JOIN LATERAL jsonb_array_elements(e.payload -> 'lines') AS line
  JOIN items AS i ON i.item_id = (line.value ->> 'item')::int
 WHERE e.kind = 'buy'
 GROUP BY e.payload ->> 'device';

-- campaigns: sources of visits, those without one included
SELECT coalesce(payload #>> '{utm,source}', 'direct') AS source, kind, count(*) AS events
  FROM events GROUP BY 1, 2;

-- likes: how many customers like each tag, and how many items have it
SELECT liked.tag, count(DISTINCT c.customer_id) AS customers, count(DISTINCT i.item_id) AS items
  FROM customers AS c
 CROSS JOIN LATERAL jsonb_array_elements_text(c.preferences -> 'likes') AS liked (tag)
  LEFT JOIN items AS i ON i.tags @> ARRAY[liked.tag]
 GROUP BY liked.tag;

-- wash_classes: items by temperature of washing, with containment of a key
SELECT (attributes #>> '{care,wash}')::int AS degrees, count(*) AS items,
       count(*) FILTER (WHERE attributes @> '{"care": {"iron": true}}') AS ironed,
       avg(list_price) AS price
  FROM items WHERE attributes ? 'care' GROUP BY 1;

-- basket_documents: each ticket as a document of its lines
SELECT s.ticket, jsonb_agg(jsonb_build_object('item', i.title, 'n', s.quantity) ORDER BY s.sale_id) AS lines,
       sum(s.quantity) AS pieces
  FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
 WHERE s.sold_on >= '2024-11-01'
 GROUP BY s.ticket;

-- profile_documents: customers with their orders as a nested document
SELECT c.customer_id,
       jsonb_build_object('name', c.first_name, 'orders', count(w.sale_id), 'spent', sum(w.unit_price)) AS profile
  FROM customers AS c LEFT JOIN web_sales AS w ON w.customer_id = c.customer_id
 WHERE c.segment = 'club'
 GROUP BY c.customer_id, c.first_name;

-- counts_by_kind: a visitor's events by kind as one object
SELECT visitor, jsonb_object_agg(kind, times ORDER BY kind) AS kinds
  FROM (SELECT visitor, kind, count(*) AS times FROM events GROUP BY visitor, kind) AS counted
 GROUP BY visitor;

-- parts_by_path: parts of items with at least three pieces, by a JSON path
SELECT i.item_id, part ->> 'name' AS part, (part ->> 'n')::int AS pieces, b.name AS brand
  FROM items AS i
 CROSS JOIN LATERAL jsonb_path_query(i.attributes, '$.parts[*] ? (@.n >= 3)') AS part
  LEFT JOIN brands AS b ON b.brand_id = i.brand_id;

-- newsletter_buyers: what readers of the newsletter buy, beside the others
SELECT coalesce((c.preferences ->> 'newsletter')::boolean, false) AS reads, i.colour,
       count(*) AS sales, sum(s.unit_price) AS revenue
  FROM store_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id
 GROUP BY 1, 2;

-- keys_of_payloads: how often each key occurs in the payloads of a kind
SELECT e.kind, k.key, count(*) AS times
  FROM events AS e CROSS JOIN LATERAL jsonb_object_keys(e.payload) AS k (key)
 GROUP BY e.kind, k.key;
