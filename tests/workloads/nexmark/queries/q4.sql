-- Average closing price of each category.
SELECT category, avg(final) AS average
  FROM (SELECT max(b.price) AS final, a.category
          FROM auction AS a, bid AS b
         WHERE a.id = b.auction
           AND b.date_time BETWEEN a.date_time AND a.expires
         GROUP BY a.id, a.category) AS closed
 GROUP BY category
