-- String functions, of one table and across tables.

-- mail_domains: customers by the domain of their mail address
SELECT lower(split_part(email, '@', 2)) AS domain, count(*) AS customers, min(last_name) AS first_name
  FROM customers WHERE email LIKE '%@%' GROUP BY 1;

-- full_names: labels of lines, put together from three tables
SELECT s.sale_id, upper(c.last_name) || ', ' || c.first_name AS customer,
       i.sku || ' ' || i.title AS item, format('%s x %s', s.quantity, s.unit_price) AS price
  FROM web_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id
 WHERE s.site = 'outlet' AND s.quantity > 5;

-- lists_of_buyers: names of the customers of an item, in order and without repetition
SELECT s.item_id, string_agg(DISTINCT c.last_name, ', ' ORDER BY c.last_name) AS names,
       count(*) AS lines
  FROM catalog_sales AS s JOIN customers AS c ON c.customer_id = s.customer_id
 GROUP BY s.item_id;

-- sku_parts: revenue by the prefix of the article number
SELECT substring(i.sku FROM 1 FOR 2) AS prefix, right(i.sku, 1) AS colour, length(i.title) AS length,
       sum(s.unit_price) AS revenue
  FROM store_sales AS s JOIN items AS i ON i.item_id = s.item_id
 GROUP BY 1, 2, 3;

-- name_in_title: customers whose initial is the initial of what they bought
SELECT c.customer_id, c.first_name, i.title
  FROM store_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  JOIN items AS i ON i.item_id = s.item_id
 WHERE left(c.first_name, 1) = left(split_part(i.title, ' ', 2), 1);

-- same_city: pairs of store and customer whose cities are spelled alike
SELECT t.name, count(DISTINCT c.customer_id) AS neighbours
  FROM stores AS t
  JOIN addresses AS ta ON ta.address_id = t.address_id
  JOIN addresses AS ca ON lower(trim(ca.city)) = lower(trim(ta.city))
  JOIN customers AS c ON c.address_id = ca.address_id
 GROUP BY t.name;

-- like_across: items whose title contains the name of the page that was visited
SELECT i.item_id, i.title, count(*) AS visits
  FROM events AS e JOIN items AS i
    ON lower(i.title) LIKE '%' || split_part(e.payload ->> 'page', '/', 3)
 WHERE e.kind = 'search'
 GROUP BY i.item_id, i.title;

-- street_numbers: house numbers by regular expression, grouped by parity
SELECT a.city, (regexp_replace(a.street, '\D', '', 'g'))::int % 2 AS odd, count(c.customer_id) AS customers
  FROM addresses AS a LEFT JOIN customers AS c ON c.address_id = a.address_id
 GROUP BY 1, 2;

-- padded_codes: codes of category and brand that are used as a group
SELECT lpad(c.category_id::text, 3, '0') || '-' || upper(left(b.name, 3)) AS code, count(*) AS items,
       avg(i.list_price) AS price
  FROM items AS i
  JOIN categories AS c ON c.category_id = i.category_id
  JOIN brands AS b ON b.brand_id = i.brand_id
 GROUP BY lpad(c.category_id::text, 3, '0') || '-' || upper(left(b.name, 3));

-- concat_group: groups by a text that is put together across tables
SELECT concat_ws(' / ', a.country, coalesce(c.segment, 'none')) AS market, count(*) AS sales,
       sum(s.shipping) AS shipping
  FROM catalog_sales AS s
  JOIN customers AS c ON c.customer_id = s.customer_id
  LEFT JOIN addresses AS a ON a.address_id = c.address_id
 GROUP BY concat_ws(' / ', a.country, coalesce(c.segment, 'none'));

-- tags_spread: tags of items, one a row, with the revenue of each tag
SELECT t.tag, count(DISTINCT i.item_id) AS items, sum(s.unit_price) AS revenue
  FROM items AS i
 CROSS JOIN LATERAL unnest(i.tags) AS t (tag)
  JOIN web_sales AS s ON s.item_id = i.item_id
 GROUP BY t.tag;
